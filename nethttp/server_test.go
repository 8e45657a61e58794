package nethttp_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/nethttp"
)

// start serves h behind a guard, over real TCP.
func start(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(nethttp.Middleware(limiter(admits(42, 17*time.Second), nil), alice)(h))
	t.Cleanup(s.Close)
	return s
}

// On the wire: a refusal is complete, and the connection serves on, although no handler has read the body.
func TestRefusalOnTheWire(t *testing.T) {
	s := httptest.NewServer(guarded(refuses(30 * time.Second)))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, method := range []string{"GET", "HEAD", "POST", "GET"} {
		fmt.Fprintf(conn, "%s / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n%s", method, strings.Repeat("x", 1000))
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatal(method, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 429 || res.ContentLength != 260 || (method == "HEAD") != (len(body) == 0) ||
			res.Header.Get("Retry-After") != "30" || res.Close {
			t.Errorf("%s: %v %+v %q", method, err, res, body)
		}
	}
	fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
	rest, err := io.ReadAll(in)
	if err != nil || !bytes.HasPrefix(rest, []byte("HTTP/1.0 429 ")) || !bytes.HasSuffix(rest, []byte("}")) {
		t.Errorf("HTTP/1.0: %v %q", err, rest)
	}
}

// httputil.ReverseProxy clears the header after each interim response of the
// upstream; the doc comment of DropUpstreamLimits says how to avoid the usual
// one. This is the check that the advice works.
func TestReverseProxyContinue(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // sends 100 Continue to a client that expects it
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Header.Del("Expect")
		},
		ModifyResponse: nethttp.DropUpstreamLimits,
	}
	s := start(t, proxy.ServeHTTP)
	req, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Expect", "100-continue")
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Get("X-RateLimit-Remaining"); got != "42" {
		t.Errorf("Remaining %q", got)
	}
}

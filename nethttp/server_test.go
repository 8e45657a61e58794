package nethttp_test

import (
	"bufio"
	"bytes"
	"errors"
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

func TestResponseWriterIsHandedOn(t *testing.T) {
	var got http.ResponseWriter
	keep := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = w })
	h := nethttp.Middleware(limiter(admits(1, 0), nil), alice)(keep)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	h.ServeHTTP(w, r)
	if got != http.ResponseWriter(w) {
		t.Errorf("the handler got a %T, not the server's own writer", got)
	}
}

// start serves h behind a guard, over real TCP.
func start(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(nethttp.Middleware(limiter(admits(42, 17*time.Second), nil), alice)(h))
	t.Cleanup(s.Close)
	return s
}

// The first event arrives, with the fields, while the handler still runs.
func TestStreaming(t *testing.T) {
	proceed := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-proceed
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetWriteDeadline(time.Now().Add(time.Minute)), control.Flush()); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("X-RateLimit-Remaining"); got != "42" {
		t.Errorf("Remaining %q", got)
	}
	body := bufio.NewReader(res.Body)
	if line, err := body.ReadString('\n'); line != "data: 1\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	close(proceed)
	if rest, err := io.ReadAll(body); string(rest) != "\ndata: 2\n\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestHijack(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nhello\n")
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhello\n") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReadFrom(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("copied")); n != 6 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "copied" || res.Header.Get("X-RateLimit-Limit") != "100" {
		t.Errorf("%q %v", body, res.Header)
	}
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

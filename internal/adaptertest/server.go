package adaptertest

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// twoPerMinute returns a server with h at GET /, behind a limit of 2 a minute.
func twoPerMinute(h http.HandlerFunc) Tree {
	return Tree{Use: by(Limiter(core.PerMinute(2))), Routes: []Route{{"GET", "/", nil, h}}}
}

// start serves h at GET /, behind a limit of 2 a minute, over TCP.
func start(t *testing.T, f Framework, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f.Build(twoPerMinute(h)))
	t.Cleanup(s.Close)
	return s
}

// get sends a GET request and returns the response and its body.
func get(t *testing.T, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// dial opens a connection. Reads and writes of it fail after 20 s, so that no test
// waits for ever.
func dial(t *testing.T, s *httptest.Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// streaming checks that an event arrives, with the limit fields, while the handler
// still runs.
func streaming(t *testing.T, f Framework) {
	received := make(chan struct{})
	s := start(t, f, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-received:
		case <-r.Context().Done():
			t.Error("the event did not arrive while the handler ran")
		}
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	client := s.Client()
	client.Timeout = 20 * time.Second
	res, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	body := bufio.NewReader(res.Body)
	if line, err := body.ReadString('\n'); line != "data: 1\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	close(received)
	if rest, err := io.ReadAll(body); string(rest) != "\ndata: 2\n\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// The handshake of RFC 6455, section 1.3.
const (
	handshake = "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	accepted     = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	acceptedKey  = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
	webSocketUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// echoMessage accepts a WebSocket and sends back one message of 5 bytes.
func echoMessage(w http.ResponseWriter, r *http.Request) error {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + webSocketUID))
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(rw, accepted+"Sec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	_ = rw.Flush()
	frame := make([]byte, 2+4+5) // a masked text of 5 bytes
	if _, err := io.ReadFull(rw, frame); err != nil {
		return err
	}
	for i := range 5 {
		frame[6+i] ^= frame[2+i%4]
	}
	_, _ = rw.Write(append([]byte{0x81, 5}, frame[6:]...))
	return rw.Flush()
}

// webSocket checks a handshake and one message in each direction, and that a
// refused handshake is an ordinary 429 that a client can read.
func webSocket(t *testing.T, f Framework) {
	s := start(t, f, func(w http.ResponseWriter, r *http.Request) {
		if err := echoMessage(w, r); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		conn, in := dial(t, s)
		_, _ = io.WriteString(conn, handshake)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Accept") != acceptedKey {
			t.Fatalf("%v %+v", err, res)
		}
		_, _ = conn.Write([]byte{0x81, 0x80 | 5, 1, 2, 3, 4, 'h' ^ 1, 'e' ^ 2, 'l' ^ 3, 'l' ^ 4, 'o' ^ 1})
		if got, err := io.ReadAll(in); string(got) != "\x81\x05hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	conn, in := dial(t, s)
	_, _ = io.WriteString(conn, handshake)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 429 || res.Header.Get("Retry-After") != "60" {
		t.Fatalf("%v %+v", err, res)
	}
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "rate_limit_exceeded") {
		t.Errorf("%q %v", body, err)
	}
}

// responseController checks that all methods of an http.ResponseController work
// behind a guard.
func responseController(t *testing.T, f Framework) {
	s := start(t, f, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		soon := time.Now().Add(time.Minute)
		err := errors.Join(c.SetReadDeadline(soon), c.SetWriteDeadline(soon), c.EnableFullDuplex(), c.Flush())
		if err != nil {
			t.Error(err)
		}
		if conn, _, err := c.Hijack(); err != nil {
			t.Error(err)
		} else {
			conn.Close()
		}
	})
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// allowOrigin is a CORS middleware, which answers preflights.
func allowOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
		if isPreflight(r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// cors checks that a preflight is counted like any other request, unless it is
// skipped or a CORS middleware outside the guard answers it. Only a CORS
// middleware outside the guard sets its fields on a 429.
func cors(t *testing.T, f Framework) {
	noContent := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }
	unchanged := func(h http.Handler) http.Handler { return h }
	for _, c := range []struct {
		name  string
		opts  []nethttp.Option
		wrap  func(http.Handler) http.Handler
		asked int
		left  string
	}{
		{"counted", nil, unchanged, 1, "0"},
		{"skipped", []nethttp.Option{nethttp.Skip(isPreflight)}, unchanged, 0, "1"},
		{"outside", nil, allowOrigin, 0, "1"},
	} {
		store := newStore()
		h := c.wrap(f.Build(Tree{
			Use:    by(on(store, core.PerMinute(2)), c.opts...),
			Routes: []Route{{"GET", "/", nil, page}, {"OPTIONS", "/", nil, noContent}},
		}))
		w := serve(t, h, "OPTIONS", "/", "Origin", "https://app.example", "Access-Control-Request-Method", "GET")
		if n := store.asked(); w.Code != 204 || n != c.asked {
			t.Errorf("%s: the preflight got %d and asked the store %d times, want %d", c.name, w.Code, n, c.asked)
		}
		expect(t, serve(t, h, "GET", "/", "Origin", "https://app.example"), 200, "2", c.left)
		for range 2 {
			w = serve(t, h, "GET", "/", "Origin", "https://app.example")
		}
		readable := w.Header().Get("Access-Control-Allow-Origin") != ""
		if w.Code != 429 || readable != (c.name == "outside") {
			t.Errorf("%s: %d %v", c.name, w.Code, w.Header())
		}
	}
}

// http10 checks that HTTP/1.0 requests are limited, and get responses that are
// whole when the connection ends.
func http10(t *testing.T, f Framework) {
	s := start(t, f, page)
	for i, want := range []string{"HTTP/1.0 200 OK", "HTTP/1.0 200 OK", "HTTP/1.0 429 Too Many Requests"} {
		conn, in := dial(t, s)
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n") // HTTP/1.0 needs no Host
		answer, err := io.ReadAll(in)
		head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
		if err != nil || !strings.HasPrefix(head, want+"\r\n") || !strings.Contains(head, "X-Ratelimit-Limit: 2\r\n") ||
			(i < 2) != (body == "page") || body == "" {
			t.Errorf("request %d: %v %q", i, err, answer)
		}
	}
}

// keepAlive checks that a single connection goes on after refusals, although no handler
// has read the body of a refused request.
func keepAlive(t *testing.T, f Framework) {
	s := httptest.NewServer(f.Build(Tree{
		Use:    by(Limiter(core.PerMinute(2)), nethttp.SkipPaths("/health")),
		Routes: []Route{{"POST", "/", nil, page}, {"GET", "/health", nil, page}},
	}))
	defer s.Close()
	conn, in := dial(t, s)
	for i, want := range []int{200, 200, 429, 429, 200, 429} {
		request := "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000)
		if i == 4 {
			request = "GET /health HTTP/1.1\r\nHost: test\r\n\r\n"
		}
		_, _ = io.WriteString(conn, request)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != want || res.Close {
			t.Errorf("request %d: %v %+v", i, err, res)
		}
	}
}

// startH2C starts s with unencrypted HTTP/2 alone, and returns a client for it. Calls of
// the client fail after 20 s.
func startH2C(s *httptest.Server) *http.Client {
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	return &http.Client{Transport: &http.Transport{Protocols: s.Config.Protocols}, Timeout: 20 * time.Second}
}

// h2c checks that requests of unencrypted HTTP/2 are limited.
func h2c(t *testing.T, f Framework) {
	s := httptest.NewUnstartedServer(f.Build(twoPerMinute(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the server got %s", r.Proto)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		page(w, r)
	})))
	client := startH2C(s)
	defer s.Close()
	defer client.CloseIdleConnections()
	for i, want := range []int{200, 200, 429} {
		res, body := get(t, client, s.URL)
		if res.ProtoMajor != 2 || res.StatusCode != want || res.Header.Get("X-RateLimit-Limit") != "2" ||
			(want == 200) != (body == "page") {
			t.Errorf("request %d: %s %d %v %q", i, res.Proto, res.StatusCode, res.Header, body)
		}
	}
}

// reverseProxy checks that the limit fields of an upstream server do not stand
// beside the guard's.
func reverseProxy(t *testing.T, f Framework) {
	limitFields := []string{
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Used",
		"RateLimit", "RateLimit-Policy",
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range limitFields {
			w.Header().Set(name, "999")
		}
		w.Header().Set("X-Upstream", r.URL.Path)
		_, _ = io.WriteString(w, "upstream")
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ModifyResponse: nethttp.DropUpstreamLimits,
	}
	s := start(t, f, proxy.ServeHTTP)
	for i, want := range []string{"upstream", "upstream", ""} {
		res, body := get(t, s.Client(), s.URL)
		ours := slices.Equal(res.Header["X-Ratelimit-Limit"], []string{"2"}) &&
			res.Header["Ratelimit"] == nil && res.Header["X-Ratelimit-Used"] == nil
		if !ours || want != "" && body != want || (res.Header.Get("X-Upstream") == "/") != (want != "") {
			t.Errorf("request %d: %v %q", i, res.Header, body)
		}
	}
}

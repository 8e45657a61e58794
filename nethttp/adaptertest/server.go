package adaptertest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// twoPerMinute returns a server with h at GET /, behind a limit of 2 a minute.
func twoPerMinute(h http.HandlerFunc) Tree {
	return behind(by(newLimiter(core.PerMinute(2))), "GET", "/", h)
}

// start serves h at GET /, behind a limit of 2 a minute, over TCP.
func start(t *testing.T, adapter Adapter, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(adapter.Build(twoPerMinute(h)))
	t.Cleanup(s.Close)
	return s
}

// clientOf returns the client of a server. Its calls fail after 20 s, so that no test waits
// for ever.
func clientOf(s *httptest.Server) *http.Client {
	client := s.Client()
	client.Timeout = 20 * time.Second
	return client
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

// http10 checks that HTTP/1.0 requests are limited, and get responses that are
// whole when the connection ends.
func http10(t *testing.T, adapter Adapter) {
	s := start(t, adapter, page)
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
func keepAlive(t *testing.T, adapter Adapter) {
	s := httptest.NewServer(adapter.Build(Tree{
		Use:    by(newLimiter(core.PerMinute(2)), nethttp.SkipPaths("/health")),
		Routes: []Route{route("POST", "/", nil, page), route("GET", "/health", nil, page)},
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

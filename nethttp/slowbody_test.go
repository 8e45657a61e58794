package nethttp_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/nethttp"
)

// pipes is a listener of connections in memory. In a bubble of testing/synctest, the time
// that a server waits for such a connection passes at once.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dialInBubble serves h in a bubble, by a server without any timeouts, and returns a connection to it.
func dialInBubble(t *testing.T, h http.Handler) (net.Conn, *bufio.Reader) {
	// The last of the cleanups: where a test has failed, goroutines may still sleep, and the
	// bubble wants them to end.
	t.Cleanup(func() { time.Sleep(24 * time.Hour) })
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{Handler: h}
	go s.Serve(p)
	t.Cleanup(func() { s.Close() })
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close() })
	p.conns <- server
	return client, bufio.NewReader(client)
}

// TestSlowBodies: a refused request gets its response, and its connection ends within a second, if the body does not
// arrive. Where no deadline can be set, it has its answer at once, and its connection ends when the client ends it.
func TestSlowBodies(t *testing.T) {
	refusing := guarded(refuses(time.Minute))
	for _, c := range []struct {
		name      string
		h         http.Handler
		status    int
		deadlines bool
	}{
		{"429, behind a writer with Unwrap", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			refusing.ServeHTTP(wrapped{bare{w}, w}, r)
		}), 429, true},
		{"500", nethttp.Middleware(limiter(admits(1, 0), nil), failing(errors.New("down")))(page), 500, true},
		{"TimeoutHandler", http.TimeoutHandler(refusing, time.Hour, ""), 429, false},
		{"writer without Unwrap", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			refusing.ServeHTTP(bare{w}, r)
		}), 429, false},
	} {
		for _, request := range []string{
			"HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\na",
			"HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\na",
			"HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			"HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
			"HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\nConnection: close\r\n\r\na",
			"HTTP/1.0\r\nContent-Length: 1000\r\nConnection: keep-alive\r\n\r\na",
		} {
			synctest.Test(t, func(t *testing.T) {
				conn, in := dialInBubble(t, c.h)
				start := time.Now()
				go io.WriteString(conn, "POST / "+request)
				_ = conn.SetReadDeadline(start.Add(time.Hour))
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("%s, %q: got %v, want a response", c.name, request, err)
				}
				rest, maxElapsed := res.Body, time.Duration(0)
				if c.deadlines {
					rest, maxElapsed = io.NopCloser(in), time.Second // the end of the connection
				}
				_, err = io.Copy(io.Discard, rest)
				elapsed := time.Since(start)
				if err != nil || elapsed > maxElapsed || res.StatusCode != c.status || !c.deadlines && !res.Close {
					t.Errorf("%s, %q: got %d, close: %v, %v, after %v, want %d and the end after %v at most",
						c.name, request, res.StatusCode, res.Close, err, elapsed, c.status, maxElapsed)
				}
			})
		}
	}
}

// TestConnectionOfRefusedBody: the connection is to close where no deadline bounds the wait for a body. HTTP/2 has no
// such wait.
func TestConnectionOfRefusedBody(t *testing.T) {
	for _, c := range []struct {
		length int64
		major  int
		want   string
	}{{0, 1, ""}, {4, 1, "close"}, {-1, 1, "close"}, {4, 2, ""}} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("body"))
		r.ContentLength, r.ProtoMajor = c.length, c.major
		if got := serve(guarded(refuses(time.Minute)), r).Header().Get("Connection"); got != c.want {
			t.Errorf("%d bytes, HTTP/%d: got Connection %q, want %q", c.length, c.major, got, c.want)
		}
	}
}

// TestKeepAliveAfterRefusedBody: the connection of a refused request stays as it was if the
// request's body arrives in time: the next request and its body may be slow.
func TestKeepAliveAfterRefusedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := int64(0)
		guard := nethttp.Middleware(limiter(refuses(time.Minute), nil), alice, nethttp.SkipPaths("POST /upload"))
		conn, in := dialInBubble(t, guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				t.Errorf("reading the body: got %v, want nil", err)
			}
			read += n
		})))
		for _, c := range []struct {
			path   string
			pauses [3]time.Duration // before the request, in its header and in its body of 6 bytes
			status int
		}{
			{"/", [3]time.Duration{0, 0, 0}, 429},
			{"/upload", [3]time.Duration{90 * time.Second, time.Hour, time.Hour}, 200},
			{"/", [3]time.Duration{90 * time.Second, time.Hour, 900 * time.Millisecond}, 429},
			{"/upload", [3]time.Duration{0, 0, time.Hour}, 200},
		} {
			parts := []string{"POST " + c.path + " HTTP/1.1\r\n", "Host: test\r\nContent-Length: 6\r\n\r\nabc", "def"}
			go func() {
				for i, part := range parts {
					time.Sleep(c.pauses[i])
					_, _ = io.WriteString(conn, part)
				}
			}()
			_ = conn.SetReadDeadline(time.Now().Add(24 * time.Hour))
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s after pauses of %v: got %v, want a response", c.path, c.pauses, err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != c.status || res.Close {
				t.Errorf("%s after pauses of %v: got %d, close: %v, %v, want %d",
					c.path, c.pauses, res.StatusCode, res.Close, err, c.status)
			}
		}
		if read != 12 {
			t.Errorf("got %d bytes read by the handler, want 12", read)
		}
	})
}

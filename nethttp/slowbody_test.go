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

	"github.com/sashlimit/sash/core"
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

// TestSlowBodies: a refused request gets its response, and its connection ends within a
// second, if the body does not arrive.
func TestSlowBodies(t *testing.T) {
	refused, down := limiter(refuses(time.Minute), nil), limiter(&fakeStore{err: errors.New("down")}, core.FailClosed)
	for _, guard := range []struct {
		name, status string
		guard        func(http.Handler) http.Handler
	}{
		{"429", "429", nethttp.Middleware(refused, alice)},
		{"503", "503", nethttp.Middleware(down, alice)},
		{"500", "500", nethttp.Middleware(refused, failing(errors.New("down")))},
	} {
		for _, c := range []struct{ name, header, body string }{
			{"Content-Length", "Content-Length: 1000\r\n", "abc"},
			{"chunked", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n"},
			{"Expect", "Content-Length: 1000\r\nExpect: 100-continue\r\n", ""},
			{"close", "Content-Length: 1000\r\nConnection: close\r\n", "abc"},
		} {
			t.Run(guard.name+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					conn, in := dialInBubble(t, wrapping(guard.guard(page)))
					start := time.Now()
					go io.WriteString(conn, "POST / HTTP/1.1\r\nHost: test\r\n"+c.header+"\r\n"+c.body)
					_ = conn.SetReadDeadline(start.Add(time.Hour))
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatalf("after %v: got %v, want a response", time.Since(start), err)
					}
					if !strings.HasPrefix(res.Status, guard.status) || !res.Close {
						t.Errorf("got %s, close: %v, want %s and close", res.Status, res.Close, guard.status)
					}
					if _, err := io.Copy(io.Discard, in); err != nil || time.Since(start) > time.Second {
						t.Errorf("got the end of the connection after %v, %v, want at most 1s", time.Since(start), err)
					}
				})
			})
		}
	}
}

// TestSlowBodiesWithoutDeadlines: where no deadline can be set, a refused request has its answer at once, and its
// connection ends when the client ends it.
func TestSlowBodiesWithoutDeadlines(t *testing.T) {
	refusing := guarded(refuses(time.Minute))
	for name, h := range map[string]http.Handler{
		"TimeoutHandler": http.TimeoutHandler(refusing, time.Hour, ""),
		"writer without Unwrap": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			refusing.ServeHTTP(bare{w}, r)
		}),
	} {
		for _, request := range []string{
			"HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\na",
			"HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\na",
			"HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			"HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
			"HTTP/1.0\r\nContent-Length: 1000\r\nConnection: keep-alive\r\n\r\na",
		} {
			synctest.Test(t, func(t *testing.T) {
				conn, in := dialInBubble(t, h)
				start := time.Now()
				go io.WriteString(conn, "POST / "+request)
				_ = conn.SetReadDeadline(start.Add(time.Hour))
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("%s, %q: got %v, want a response", name, request, err)
				}
				if _, err := io.ReadAll(res.Body); err != nil || time.Since(start) != 0 || res.StatusCode != 429 || !res.Close {
					t.Errorf("%s, %q: got %d, close: %v, %v, after %v, want 429 and close at once",
						name, request, res.StatusCode, res.Close, err, time.Since(start))
				}
			})
		}
	}
}

// upload sends a request with a body of 6 bytes, with pauses before the request, in its
// header and in its body.
func upload(conn net.Conn, path string, pauses [3]time.Duration) {
	for i, part := range []string{
		"POST " + path + " HTTP/1.1\r\n", "Host: test\r\nContent-Length: 6\r\n\r\nabc", "def",
	} {
		time.Sleep(pauses[i])
		_, _ = io.WriteString(conn, part)
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
			pauses [3]time.Duration
			status int
		}{
			{"/", [3]time.Duration{0, 0, 0}, 429},
			{"/upload", [3]time.Duration{90 * time.Second, time.Hour, time.Hour}, 200},
			{"/", [3]time.Duration{90 * time.Second, time.Hour, 900 * time.Millisecond}, 429},
			{"/upload", [3]time.Duration{0, 0, time.Hour}, 200},
		} {
			go upload(conn, c.path, c.pauses)
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

// TestRefusedBodyH2C: in HTTP/2 a refusal is sent before the request's body has ended, and the
// connection goes on with other streams.
func TestRefusedBodyH2C(t *testing.T) {
	h := guarded(refuses(time.Minute), nethttp.SkipPaths("POST /upload", "POST /late/upload"))
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/late/", http.TimeoutHandler(h, time.Hour, "")) // which has no deadlines
	s := httptest.NewUnstartedServer(mux)
	opened := 0
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened++
		}
	}
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	// With one connection, a request that follows at once does not dial before the first is in the pool.
	transport := &http.Transport{Protocols: s.Config.Protocols, MaxConnsPerHost: 1}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	for path, want := range map[string]int{"/": 429, "/upload": 200, "/late/": 429, "/late/upload": 200} {
		body, writer := io.Pipe() // an open body, of which no byte is written
		res, err := client.Post(s.URL+path, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.ProtoMajor != 2 || res.StatusCode != want {
			t.Errorf("%s: got %s %d, %v, want HTTP/2 and %d", path, res.Proto, res.StatusCode, err, want)
		}
		res.Body.Close()
		writer.Close()
	}
	client.CloseIdleConnections()
	s.Close() // waits for the goroutine that writes opened
	if opened != 1 {
		t.Errorf("got %d connections, want 1", opened)
	}
}

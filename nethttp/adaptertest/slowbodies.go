package adaptertest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// pipes is a listener of connections in memory. In a bubble of testing/synctest,
// the time that a server waits for such a connection passes at once.
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

// listen serves h in a bubble, by a server without any timeouts, and returns a
// function that opens a connection to the server.
func listen(t *testing.T, h http.Handler) func() (net.Conn, *bufio.Reader) {
	// The last of the cleanups: where a test has failed, goroutines may still sleep, and the
	// bubble wants them to end.
	t.Cleanup(func() { time.Sleep(24 * time.Hour) })
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{Handler: h}
	go s.Serve(p)
	t.Cleanup(func() { s.Close() })
	return func() (net.Conn, *bufio.Reader) {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		p.conns <- server
		return client, bufio.NewReader(client)
	}
}

// tooMuch returns a guard that refuses each request, since a request costs more
// than the limit.
func tooMuch(opts ...nethttp.Option) Step {
	opts = append(opts, nethttp.WithCost(func(*http.Request) int { return 2 }))
	return Step{Limiter: newLimiter(core.PerMinute(1)), Key: sameKey, Options: opts}
}

// refusing returns guards that refuse each request, for all reasons. Each name
// begins with the status of the refusal.
func refusing(adapter Adapter) map[string]Step {
	limiter := newLimiter(core.PerMinute(1))
	noKey := func(*http.Request) (string, error) { return "", keyfuncs.ErrNoKey }
	failing := func(*http.Request) (string, error) { return "", errDown }
	guards := map[string]Step{
		"429": tooMuch(),
		"503": {Limiter: on(outage, core.PerMinute(1)).WithPolicy(core.FailClosed), Key: sameKey},
		"400": {Limiter: limiter, Key: noKey},
		"500": {Limiter: limiter, Key: failing},
	}
	for name, option := range adapter.refusals() {
		guards["429 "+name] = tooMuch(option(func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			w.WriteHeader(nethttp.Status(d))
		}))
	}
	return guards
}

// wrapper is a ResponseWriter that a middleware puts around another one.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// slowBodies checks that a refused request gets its response, and that its
// connection ends within a second, if the body does not arrive.
func slowBodies(t *testing.T, adapter Adapter) {
	for name, guard := range refusing(adapter) {
		for _, c := range []struct{ name, header, body string }{
			{"Content-Length", "Content-Length: 1000\r\n", "abc"},
			{"chunked", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n"},
			{"Expect", "Content-Length: 1000\r\nExpect: 100-continue\r\n", ""},
			{"close", "Content-Length: 1000\r\nConnection: close\r\n", "abc"},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := adapter.Build(behind([]Step{guard}, "POST", "/", page))
					dial := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						h.ServeHTTP(wrapper{w}, r)
					}))
					conn, in := dial()
					start := time.Now()
					go io.WriteString(conn, "POST / HTTP/1.1\r\nHost: test\r\n"+c.header+"\r\n"+c.body)
					_ = conn.SetReadDeadline(start.Add(time.Hour))
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatalf("after %v: %v; want a response", time.Since(start), err)
					}
					if status := name[:3]; !strings.HasPrefix(res.Status, status) || !res.Close {
						t.Errorf("got %s, close %v; want %s and close", res.Status, res.Close, status)
					}
					if _, err := io.Copy(io.Discard, in); err != nil || time.Since(start) > time.Second {
						t.Errorf("the connection ended after %v, %v; want at most 1s", time.Since(start), err)
					}
				})
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

// keepAliveAfterRefusedBody checks that the connection of a refused request stays
// as it was if the request's body arrives in time: the next request and its body
// may be slow.
func keepAliveAfterRefusedBody(t *testing.T, adapter Adapter) {
	synctest.Test(t, func(t *testing.T) {
		read := int64(0)
		readAll := func(_ http.ResponseWriter, r *http.Request) {
			var err error
			if read, err = io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
		}
		dial := listen(t, adapter.Build(Tree{
			Use:    []Step{tooMuch(nethttp.SkipPaths("POST /upload"))},
			Routes: []Route{route("POST", "/", nil, page), route("POST", "/upload", nil, readAll)},
		}))
		conn, in := dial()
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
				t.Fatalf("%s after pauses of %v: %v", c.path, c.pauses, err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != c.status || res.Close {
				t.Errorf("%s after pauses of %v: %d, close %v, %v; want %d",
					c.path, c.pauses, res.StatusCode, res.Close, err, c.status)
			}
		}
		if read != 6 {
			t.Errorf("the handler read %d bytes, want 6", read)
		}
	})
}

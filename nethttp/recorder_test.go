package nethttp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/nethttp"
)

// bare is a ResponseWriter without any other interface.
type bare struct{ w http.ResponseWriter }

func (b bare) Header() http.Header            { return b.w.Header() }
func (b bare) WriteHeader(status int)         { b.w.WriteHeader(status) }
func (b bare) Write(body []byte) (int, error) { return b.w.Write(body) }

type (
	flushes struct{ bare }
	hijacks struct{ bare }
	both    struct{ flushes }
)

func (flushes) Flush()                                       {}
func (hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }
func (both) Hijack() (net.Conn, *bufio.ReadWriter, error)    { return nil, nil, nil }

// wrapped is a ResponseWriter that shows its interfaces to Unwrap alone.
type wrapped struct {
	bare
	inner http.ResponseWriter
}

func (w wrapped) Unwrap() http.ResponseWriter { return w.inner }

// recorded returns a handler behind a guard that records its status.
func recorded(h http.HandlerFunc, status *int) http.Handler {
	record := nethttp.CountWhen(func(_ *http.Request, got int) bool { *status = got; return true })
	return nethttp.Middleware(fakeclock.Limiter(core.PerHour(100)), alice, record)(h)
}

// TestRecorderKeepsInterfaces: the handler's ResponseWriter hijacks if the server's own does. It is always an
// io.ReaderFrom and an http.Flusher, and http.ResponseController tells whether it can flush.
func TestRecorderKeepsInterfaces(t *testing.T) {
	b := bare{httptest.NewRecorder()}
	for _, c := range []struct {
		name             string
		w                http.ResponseWriter
		flushes, hijacks bool
		status           int // of a handler that flushes, and then sends 404
	}{
		{"none", b, false, false, 404},
		{"flush", flushes{b}, true, false, 200},
		{"hijack", hijacks{b}, false, true, 404},
		{"both", both{flushes{b}}, true, true, 200},
		{"both, inside", wrapped{b, both{flushes{b}}}, true, true, 200},
	} {
		var status int
		recorded(func(w http.ResponseWriter, r *http.Request) {
			_, flushes := w.(http.Flusher)
			_, hijacks := w.(http.Hijacker)
			if _, ok := w.(io.ReaderFrom); !ok || !flushes || hijacks != c.hijacks {
				t.Errorf("%s: got a %T, want an io.ReaderFrom and http.Flusher that hijacks as the server's", c.name, w)
			}
			if err := http.NewResponseController(w).Flush(); (err == nil) != c.flushes {
				t.Errorf("%s: flushed: %v", c.name, err)
			}
			w.WriteHeader(404)
		}, &status).ServeHTTP(c.w, httptest.NewRequest("GET", "/", nil))
		if status != c.status {
			t.Errorf("%s: recorded %d, want %d", c.name, status, c.status)
		}
	}
}

// Inside an http.TimeoutHandler, nothing is known of a handler that comes too late, and
// another one is asked about as ever.
func TestInsideTimeoutHandler(t *testing.T) {
	late := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, c := range []struct {
		name     string
		handler  http.HandlerFunc
		status   int
		recorded int
	}{
		{"nothing", late, 503, 0},
		{"a page, too late", func(w http.ResponseWriter, r *http.Request) { late(w, r); page(w, r) }, 503, 0},
		{"201, too late", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); late(w, r) }, 503, 0},
		{"401", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, 401, 401},
	} {
		synctest.Test(t, func(t *testing.T) { // on the machine's clock the timeout might pass before the guard is asked
			var status int
			w := get(t, http.TimeoutHandler(recorded(c.handler, &status), time.Millisecond, ""), "/")
			if synctest.Wait(); w.Code != c.status || status != c.recorded {
				t.Errorf("%s: got %d and recorded %d, want %d and %d", c.name, w.Code, status, c.status, c.recorded)
			}
		})
	}
}

// A guard of Check sees no handler: its requests stay counted.
func TestCheckStaysCounted(t *testing.T) {
	none := nethttp.CountWhen(func(*http.Request, int) bool { return false })
	g := core.Must(nethttp.New(fakeclock.Limiter(core.PerHour(1)), alice, none))
	for i, want := range []bool{true, false} {
		if got := g.Check(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)); got != want {
			t.Errorf("request %d: %v", i, got)
		}
	}
}

package adaptertest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// watch is a limiter of 5 a minute. Its CountWhen notes the statuses that it is asked
// about.
type watch struct {
	limiter *core.Limiter
	counted bool // what CountWhen returns

	mu       sync.Mutex // guards statuses
	statuses []int
}

func newWatch() *watch { return &watch{limiter: Limiter(core.PerMinute(5))} }

// step returns the guard of the limiter, with the address of the peer as its key.
func (w *watch) step(opts ...nethttp.Option) Step {
	counted := nethttp.CountWhen(func(_ *http.Request, status int) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.statuses = append(w.statuses, status)
		return w.counted
	})
	return step(w.limiter, append(opts, counted)...)
}

// expect checks the statuses that CountWhen was asked about since the last call, and how
// many units are left.
func (w *watch) expect(t *testing.T, what string, left int64, statuses ...int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.limiter.AllowN(context.Background(), "user:all", 0)
	if d.Remaining != left || !slices.Equal(w.statuses, statuses) {
		t.Errorf("%s: %d units are left, CountWhen was asked about %v; want %d and %v",
			what, d.Remaining, w.statuses, left, statuses)
	}
	w.statuses = nil
}

// exchange sends POST / to h over TCP, waits until h has returned, and returns the status
// that the client gets: 0 if the connection ends without one.
func exchange(t *testing.T, h http.Handler) int {
	t.Helper()
	returned := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	defer s.Close()
	client := s.Client()
	client.Timeout = 20 * time.Second
	res, err := client.Post(s.URL, "text/plain", nil)
	<-returned
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// status returns a handler that sends a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// endings are handlers, with the status that CountWhen is asked about. A status of 0
// stands for the one that the client gets.
var endings = []struct {
	name    string
	handler http.HandlerFunc
	status  int
}{
	{"nothing", func(http.ResponseWriter, *http.Request) {}, 200},
	{"a body", page, 200},
	{"a string", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }, 200},
	{"a copy", func(w http.ResponseWriter, _ *http.Request) { copied(w, "page") }, 200},
	{"a copy of nothing, then 401", func(w http.ResponseWriter, _ *http.Request) {
		copied(w, "")
		w.WriteHeader(401)
	}, 401},
	{"a flush", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200},
	{"a flush, then a status", func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		w.WriteHeader(401)
	}, 200},
	{"401", status(401), 401},
	{"204", status(204), 204},
	{"401 and a body", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); page(w, r) }, 401},
	{"a body, then a status", func(w http.ResponseWriter, r *http.Request) { page(w, r); w.WriteHeader(401) }, 200},
	{"two statuses", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); w.WriteHeader(200) }, 0},
	{"early hints", status(103), 200},
	{"early hints, then a body", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103); page(w, r) }, 200},
	{"early hints, then 401", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(103)
		w.WriteHeader(401)
	}, 0},
	{"hijacked", hijack, 101},
	{"hijacked by a controller", func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	}, 101},
	{"hijacked, then panic", func(w http.ResponseWriter, r *http.Request) { hijack(w, r); panic("handler") }, 101},
	{"panic", func(http.ResponseWriter, *http.Request) { panic("handler") }, 500},
	{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 500},
	{"early hints, then abort", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(103)
		panic(http.ErrAbortHandler)
	}, 500},
	{"401, then abort", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(401)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, 401},
}

// copied copies text to w from a reader that leaves the way to w.
func copied(w io.Writer, text string) {
	_, _ = io.Copy(w, io.LimitReader(strings.NewReader(text), 1<<20))
}

func hijack(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}

// countWhen checks that CountWhen is asked once about each request, with the status that
// the client gets, and that a unit is given back iff CountWhen says so.
func countWhen(t *testing.T, f Framework) {
	for _, c := range endings {
		t.Run(c.name, func(t *testing.T) {
			w := newWatch()
			h := f.Build(Tree{Use: []Step{w.step()}, Routes: []Route{{"POST", "/", nil, c.handler}}})
			for i, left := range []int64{5, 4} {
				w.counted = i == 1
				got := exchange(t, h)
				want := c.status
				if want == 0 {
					want = got
				}
				if got != 0 && got != want {
					t.Errorf("the client got %d, want %d", got, want)
				}
				w.expect(t, fmt.Sprint("counted ", w.counted), left, want)
			}
		})
	}
}

// countWhenElsewhere checks requests that do not come to a handler, and guards around
// others.
func countWhenElsewhere(t *testing.T, f Framework) {
	reserved := func(h http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if got := w.Header().Get("X-RateLimit-Remaining"); got != "4" {
				t.Errorf("Remaining is %q while the request is under way", got)
			}
			h.ServeHTTP(w, r)
		}
	}
	over := make(chan struct{})
	defer close(over)
	w, inner := newWatch(), newWatch()
	h := f.Build(Tree{
		Use: []Step{w.step(nethttp.SkipPaths("POST /skipped"))},
		Routes: []Route{
			{"POST", "/", nil, reserved(status(403))},
			{"POST", "/skipped", nil, status(401)},
			{"POST", "/refused", []Step{spent()}, page},
			{"POST", "/nested", []Step{inner.step()}, status(401)},
			{"POST", "/slow", nil, http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				<-over // not at the end of the timeout, which the TimeoutHandler might see later
			}), time.Nanosecond, "slow").ServeHTTP},
		},
	})
	for _, c := range []struct {
		path, limit string
		status      int
		asked       []int
	}{
		{"/", "5", 403, []int{403}},
		{"/nowhere", "5", 404, []int{404}},
		{"/skipped", "", 401, nil},
		{"/refused", "1", 429, []int{429}},
		{"/slow", "5", 503, []int{503}},
		{"/nested", "5", 401, []int{401}},
	} {
		got := serve(t, h, "POST", c.path)
		if got.Code != c.status || got.Header().Get("X-RateLimit-Limit") != c.limit {
			t.Errorf("%s: %d %v", c.path, got.Code, got.Header())
		}
		w.expect(t, c.path, 5, c.asked...)
	}
	inner.expect(t, "the inner guard", 5, 401)

	refusing := Step{Limiter: w.limiter, Key: keyfuncs.Header("X-Tenant"), Options: w.step().Options}
	h = f.Build(Tree{Use: []Step{refusing}, Routes: []Route{{"POST", "/", nil, page}}})
	if got := serve(t, h, "POST", "/"); got.Code != 400 {
		t.Errorf("a request without a key got %d", got.Code)
	}
	w.expect(t, "refused for want of a key", 5)
}

// clientLeft checks a request after its client has left: it stays counted if nothing is sent,
// and else is given back as ever.
func clientLeft(t *testing.T, f Framework) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		left    int64
		asked   []int
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, 4, nil},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 4, nil},
		{"401", status(401), 5, []int{401}},
		{"a body", page, 5, []int{200}},
	} {
		w := newWatch()
		ctx, leave := context.WithCancel(t.Context())
		h := f.Build(Tree{Use: []Step{w.step()}, Routes: []Route{{"POST", "/", nil,
			func(w http.ResponseWriter, r *http.Request) { leave(); c.handler(w, r) }}}})
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil).WithContext(ctx))
		}()
		w.expect(t, c.name, c.left, c.asked...)
	}
}

// unreturned checks that a request stays counted, and is answered as ever, if the store
// fails when the request is given back, or if CountWhen panics.
func unreturned(t *testing.T, f Framework) {
	s := newStore()
	s.keeps = true
	w := &watch{limiter: on(s, core.PerMinute(5))}
	h := f.Build(Tree{Use: []Step{w.step()}, Routes: []Route{{"POST", "/", nil, status(201)}}})
	if got := exchange(t, h); got != 201 {
		t.Errorf("the client got %d", got)
	}
	w.expect(t, "a store that fails", 4, 201)

	w = newWatch()
	panics := nethttp.CountWhen(func(*http.Request, int) bool { panic("the user's own") })
	h = f.Build(Tree{
		Use:    []Step{step(w.limiter, panics)},
		Routes: []Route{{"POST", "/", nil, page}},
	})
	if got := exchange(t, h); got != 0 {
		t.Errorf("after a panic of CountWhen the client got %d", got)
	}
	w.expect(t, "a panic of CountWhen", 4)
}

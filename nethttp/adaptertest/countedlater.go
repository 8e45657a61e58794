package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// countWhenElsewhere checks requests that do not come to a handler, and guards around
// others.
func countWhenElsewhere(t *testing.T, adapter Adapter) {
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
	h := adapter.Build(Tree{
		Use: []Step{w.step(nethttp.SkipPaths("POST /skipped"))},
		Routes: []Route{
			route("POST", "/", nil, reserved(status(403))),
			route("POST", "/skipped", nil, status(401)),
			route("POST", "/refused", []Step{spent()}, page),
			route("POST", "/nested", []Step{inner.step()}, status(401)),
			route("POST", "/slow", nil, http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				<-over // not at the end of the timeout, which the TimeoutHandler might see later
			}), time.Nanosecond, "slow").ServeHTTP),
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
}

// countWhenRefused checks that CountWhen is not asked about a request that its own guard
// refuses.
func countWhenRefused(t *testing.T, adapter Adapter) {
	w := newWatch()
	refusing := Step{Limiter: w.limiter, Key: keyfuncs.Header("X-Tenant"), Options: w.step().Options}
	h := adapter.Build(behind([]Step{refusing}, "POST", "/", page))
	if got := serve(t, h, "POST", "/"); got.Code != 400 {
		t.Errorf("a request without a key got %d", got.Code)
	}
	w.expect(t, "refused for want of a key", 5)
}

// clientLeft checks a request after its client has left: it stays counted if nothing is sent,
// and else is given back as ever.
func clientLeft(t *testing.T, adapter Adapter) {
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
		h := adapter.Build(behind([]Step{w.step()}, "POST", "/",
			func(w http.ResponseWriter, r *http.Request) { leave(); c.handler(w, r) }))
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil).WithContext(ctx))
		}()
		w.expect(t, c.name, c.left, c.asked...)
	}
}

// unreturned checks that a request stays counted, and is answered as ever, if the store
// fails when the request is given back, or if CountWhen panics.
func unreturned(t *testing.T, adapter Adapter) {
	s := newStore()
	s.keeps = true
	w := &watch{limiter: on(s, core.PerMinute(5))}
	h := adapter.Build(behind([]Step{w.step()}, "POST", "/", status(201)))
	if got := exchange(t, h); got != 201 {
		t.Errorf("the client got %d", got)
	}
	w.expect(t, "a store that fails", 4, 201)

	w = newWatch()
	panics := nethttp.CountWhen(func(*http.Request, int) bool { panic("the user's own") })
	h = adapter.Build(Tree{
		Use:    []Step{step(w.limiter, panics)},
		Routes: []Route{route("POST", "/", nil, page)},
	})
	if got := exchange(t, h); got != 0 {
		t.Errorf("after a panic of CountWhen the client got %d", got)
	}
	w.expect(t, "a panic of CountWhen", 4)
}

package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// countWhenElsewhere checks requests that reach no handler, and nested guards.
func countWhenElsewhere(t *testing.T, adapter Adapter) {
	over := make(chan struct{})
	defer close(over)
	w, inner := newCountRecorder(), newCountRecorder()
	h := adapter.Build(Tree{
		Use: []Step{w.step(nethttp.SkipPaths("POST /skipped"))},
		Routes: []Route{
			route("POST", "/", nil, status(403)),
			route("POST", "/skipped", nil, status(401)),
			route("POST", "/refused", []Step{exhausted()}, page),
			route("POST", "/nested", []Step{inner.step()}, status(401)),
			route("POST", "/slow", nil, http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				<-over // not at the end of the timeout, which the TimeoutHandler might see later
			}), time.Nanosecond, "slow").ServeHTTP),
		},
	})
	for _, c := range []struct {
		path, left string // units, while the request is under way
		status     int
		statuses   []int
	}{
		{"/", "4", 403, []int{403}},
		{"/nowhere", "4", 404, []int{404}},
		{"/skipped", "", 401, nil},
		{"/refused", "0", 429, []int{429}},
		{"/slow", "4", 503, []int{503}},
		{"/nested", "4", 401, []int{401}},
	} {
		got := serve(h, "POST", c.path)
		if got.Code != c.status || got.Header().Get("X-RateLimit-Remaining") != c.left {
			t.Errorf("%s: %d %v", c.path, got.Code, got.Header())
		}
		w.expect(t, c.path, 5, c.statuses...)
	}
	inner.expect(t, "the inner guard", 5, 401)
}

// clientLeft checks a request whose client leaves: it stays counted if nothing is sent, and is given back otherwise. A
// request that is canceled before the decision gets 499, and one after its deadline 503, with a body.
func clientLeft(t *testing.T, adapter Adapter) {
	for _, c := range []struct {
		name     string
		handler  http.HandlerFunc
		left     int64
		statuses []int
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, 4, nil},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 4, nil},
		{"401", status(401), 5, []int{401}},
		{"a body", page, 5, []int{200}},
	} {
		w := newCountRecorder()
		ctx, leave := context.WithCancel(t.Context())
		h := adapter.Build(rootTree([]Step{w.step()}, "POST", "/",
			func(w http.ResponseWriter, r *http.Request) { leave(); c.handler(w, r) }))
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil).WithContext(ctx))
		}()
		w.expect(t, c.name, c.left, c.statuses...)
	}
	for _, policy := range []core.Policy{core.FailOpen, core.FailClosed} {
		l := newLimiter(core.PerMinute(5)).WithPolicy(policy)
		h := adapter.Build(rootTree([]Step{step(l)}, "POST", "/", page))
		for timeout, want := range map[time.Duration]int{time.Hour: 499, 0: 503} {
			ctx, leave := context.WithTimeout(t.Context(), timeout)
			leave() // after the timeout if that is 0
			got := httptest.NewRecorder()
			h.ServeHTTP(got, httptest.NewRequest("POST", "/", nil).WithContext(ctx))
			if answered := got.Body.Len() > 0; got.Code != want || answered != (want == 503) {
				t.Errorf("a context that has ended by %v: got %d %q, want %d", ctx.Err(), got.Code, got.Body, want)
			}
		}
	}
}

package nethttp_test

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

// observed returns a limiter, and the events of its observer.
func observed(s core.Store, policy core.Policy) (*core.Limiter, *[]core.Event) {
	events := new([]core.Event)
	return core.Must(core.New(core.Config{
		Name: "test", Store: s, Limits: []core.Limit{minute}, OnStoreError: policy,
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { *events = append(*events, e) }),
	})), events
}

// TestLabels: around a ServeMux the label is the pattern by which it serves, also for
// refused requests, and never a path.
func TestLabels(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", page)
	mux.Handle("/tree/{id}/", page)
	logged := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) })
	own := nethttp.WithLabel(func(*http.Request) string { return "own" })
	for _, s := range []*fakeStore{admits(1, 0), refuses(time.Second)} {
		l, events := observed(s, nil)
		direct := nethttp.Middleware(l, alice)(mux)
		inside := http.NewServeMux()
		inside.Handle("/items/", direct)
		for _, c := range []struct {
			h            http.Handler
			method, path string
			want         string
		}{
			{direct, "GET", "/items/17", "GET /items/{id}"},
			{direct, "POST", "/items/17", ""},
			{direct, "GET", "/tree/17", ""},
			{direct, "GET", "/x/../items/17", ""},
			{direct, "GET", "/tree/17/branch", "/tree/{id}/"},
			{inside, "GET", "/items/17", "GET /items/{id}"},
			{nethttp.Middleware(l, alice)(logged), "GET", "/items/17", ""},
			{nethttp.Middleware(l, alice, own)(mux), "GET", "/items/17", "own"},
			{nethttp.Middleware(l, keyfuncs.Header("X"))(mux), "GET", "/items/17", "GET /items/{id}"},
		} {
			*events = nil
			c.h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil))
			if len(*events) != 1 || (*events)[0].Label != c.want {
				t.Errorf("%s %s: %+v, want the label %q", c.method, c.path, *events, c.want)
			}
		}
	}
}

// TestLabelOnlyIfObserved: no label is looked up for a limiter that only logs.
func TestLabelOnlyIfObserved(t *testing.T) {
	label := nethttp.WithLabel(func(*http.Request) string { t.Error("looked up"); return "" })
	get(t, nethttp.Middleware(limiter(admits(1, 0), nil), alice, label)(page), "/")
}

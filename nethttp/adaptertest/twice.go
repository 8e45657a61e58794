package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// notices collects the codes of notices.
type notices struct {
	mu    sync.Mutex // guards codes
	codes []string
}

func (n *notices) Observe(context.Context, core.Event) {}
func (n *notices) Notice(_ context.Context, heard core.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.codes = append(n.codes, heard.Code)
}

// expect checks the codes of the notices that came.
func (n *notices) expect(t *testing.T, what string, codes ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.codes, codes) {
		t.Errorf("%s: the notices are %q, want %q", what, n.codes, codes)
	}
}

// noticing returns a limiter, and what collects its notices.
func noticing() (*core.Limiter, *notices) {
	heard := new(notices)
	return core.Must(core.New(core.Config{
		Name: "test", Store: newStore(), Limits: []core.Limit{core.PerMinute(10_000)}, Observer: heard,
	})), heard
}

// countedTwice checks that the first request that two guards of one rule count is told of.
func countedTwice(t *testing.T, adapter Adapter) {
	get := func(steps ...Step) []Route { return []Route{route("GET", "/items/{id}", steps, page)} }
	for _, c := range []struct {
		what string
		tree func(l *core.Limiter) Tree
	}{
		{"the root and a group", func(l *core.Limiter) Tree {
			return Tree{Use: by(l), Prefix: "/api", Group: by(l), Routes: get()}
		}},
		{"the root, twice", func(l *core.Limiter) Tree {
			return Tree{Use: append(by(l), by(l)...), Prefix: "/api", Routes: get()}
		}},
		{"a group and a route, with other policies, fields and refusals", func(l *core.Limiter) Tree {
			return Tree{Prefix: "/api", Group: by(l.WithPolicy(core.FailClosed), nethttp.WithHeaders()),
				Routes: get(by(rule(l, "a", core.PerMinute(1)), nethttp.WithHeaders())[0], by(l)[0])}
		}},
	} {
		l, heard := noticing()
		h := adapter.Build(c.tree(l))
		for range 3 {
			serve(t, h, "GET", "/api/items/1")
		}
		heard.expect(t, c.what, core.NoticeCountedTwice)
	}
	for _, refuses := range adapter.refusals() {
		l, heard := noticing()
		own := by(l, refuses(func(w http.ResponseWriter, _ *http.Request, _ core.Decision) { w.WriteHeader(418) }))
		serve(t, adapter.Build(Tree{Use: own, Prefix: "/api", Group: own, Routes: get()}), "GET", "/api/items/1")
		heard.expect(t, "refusals of its own", core.NoticeCountedTwice)
	}
}

// countedOnce checks that no notice comes of guards with rules of their own, of a handler
// that counts by itself, and of a writer and a request that are used again.
func countedOnce(t *testing.T, adapter Adapter) {
	l, heard := noticing()
	h := adapter.Build(Tree{
		Use: by(rule(l, "all", core.PerMinute(10_000))), Prefix: "/api", Group: by(l),
		Routes: []Route{route("GET", "/items/{id}", by(rule(l, "items", core.PerMinute(10_000))),
			func(_ http.ResponseWriter, r *http.Request) {
				for range 2 {
					l.Allow(r.Context(), "ip:192.0.2.1")
				}
			})},
	})
	r := httptest.NewRequest(http.MethodGet, "/api/items/1", nil)
	w := httptest.NewRecorder()
	for range 300 {
		h.ServeHTTP(w, r)
	}
	heard.expect(t, "guards that count once")
}

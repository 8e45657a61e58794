// Package adaptertest is one suite of behaviour for the middleware of every
// framework: what it asserts holds for a user of any of them.
package adaptertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// Framework is one framework and its adapter.
type Framework struct {
	// Build returns a handler that serves a tree, in the way that a user of
	// the framework would write it.
	Build func(Tree) http.Handler

	// Middleware calls the adapter's Middleware.
	Middleware func(*core.Limiter, keyfuncs.Func, ...nethttp.Option)

	// The observer's label for GET /api/items/{id} at the root, in the group
	// "/api" and at the route.
	RootLabel, GroupLabel, RouteLabel string
}

// Tree is a server: one group of routes in a root.
type Tree struct {
	Use    []Step
	Prefix string // of the group; may be empty
	Group  []Step
	Routes []Route
}

// Step is one middleware: a limit, or one that calls Spy and goes on.
type Step struct {
	Limiter *core.Limiter
	Key     keyfuncs.Func
	Options []nethttp.Option

	Spy func()
}

// Route is a route of the group. A parameter is written {id}.
type Route struct {
	Method, Pattern string
	Steps           []Step
	Handler         http.HandlerFunc
}

// Run runs the suite.
func Run(t *testing.T, f Framework) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Framework)
	}{
		{"GroupAndRoute", groupAndRoute},
		{"ManyPaths", manyPaths},
		{"SharedRules", sharedRules},
		{"Allocations", allocations},
		{"Exclusions", exclusions},
		{"Prefixes", prefixes},
		{"Labels", labels},
		{"Refusals", refusals},
		{"Panics", panicking},
		{"Streaming", streaming},
		{"WebSocket", webSocket},
		{"ResponseController", responseController},
		{"CORS", cors},
		{"HTTP10", http10},
		{"KeepAlive", keepAlive},
		{"H2C", h2c},
		{"ReverseProxy", reverseProxy},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}

// noon is when everything happens where the clock stands still.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// store counts in memory, while the clock stands still, and remembers what it
// was asked.
type store struct {
	core.Store
	mu    sync.Mutex
	calls int
	keys  []string
}

func newStore() *store {
	return &store{Store: memstore.New(memstore.WithClock(func() time.Time { return noon }))}
}

func (s *store) Bind(rule core.Rule) (core.Counts, error) {
	c, err := s.Store.Bind(rule)
	return counts{c, s}, err
}

// asked returns how often the store was asked since the last call.
func (s *store) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.calls = 0
	return n
}

type counts struct {
	core.Counts
	store *store
}

func (c counts) Immediate() {}

func (c counts) Take(ctx context.Context, key string, cost int64, charge bool) (core.Decision, error) {
	c.store.mu.Lock()
	c.store.calls++
	if !slices.Contains(c.store.keys, key) {
		c.store.keys = append(c.store.keys, key)
	}
	c.store.mu.Unlock()
	return c.Counts.Take(ctx, key, cost, charge)
}

// Limiter returns a limiter of its own store, whose clock stands still.
func Limiter(limits ...core.Limit) *core.Limiter { return on(newStore(), limits...) }

func on(s core.Store, limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "test", Store: s, Limits: limits}))
}

func rule(l *core.Limiter, name string, limits ...core.Limit) *core.Limiter {
	return core.Must(l.Rule(name, limits...))
}

// by is the step of a limiter by the address of the peer.
func by(l *core.Limiter, opts ...nethttp.Option) []Step {
	return []Step{{Limiter: l, Key: keyfuncs.RemoteIP, Options: opts}}
}

// page is a handler that says that it was reached.
func page(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("page")) }

// serve sends a request whose target is parsed as a server does.
func serve(t *testing.T, h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, "/", nil)
	r.URL, r.RequestURI = u, target
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// expect checks a response: its status, and Limit and Remaining as one value
// each, or none if limit is empty.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, limit, remaining string) {
	t.Helper()
	one := func(value string) []string {
		if limit == "" {
			return nil
		}
		return []string{value}
	}
	h := w.Header()
	if w.Code != status || !slices.Equal(h["X-Ratelimit-Limit"], one(limit)) || !slices.Equal(h["X-Ratelimit-Remaining"], one(remaining)) {
		t.Helper()
		t.Fatalf("got %d %v\nwant %d, limit %q, remaining %q", w.Code, h, status, limit, remaining)
	}
}

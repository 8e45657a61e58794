// Package adaptertest is one suite of behaviour for the middleware of every
// framework. Its assertions hold for the users of all frameworks.
package adaptertest

import (
	"context"
	"errors"
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
	// Build returns a handler that serves a tree, written as a user of the
	// framework writes it.
	Build func(Tree) http.Handler

	// Middleware calls the adapter's Middleware.
	Middleware func(*core.Limiter, keyfuncs.Func, ...nethttp.Option)

	// Refusal is the adapter's own option for refusals, or nil. The option calls
	// refuse with the framework's own ResponseWriter.
	Refusal func(refuse Refusal) nethttp.Option

	// RootLabel, GroupLabel and RouteLabel are the labels that an observer gets for
	// GET /api/items/{id} from a guard at the root, in the group "/api" and at the
	// route.
	RootLabel, GroupLabel, RouteLabel string
}

// Refusal writes the response to a refused request.
type Refusal = func(w http.ResponseWriter, r *http.Request, d core.Decision)

// refusals returns the options of the framework that set the response to a
// refused request, by name.
func (f Framework) refusals() map[string]func(Refusal) nethttp.Option {
	all := map[string]func(Refusal) nethttp.Option{
		"nethttp": func(refuse Refusal) nethttp.Option { return nethttp.WithRefusal(refuse) },
	}
	if f.Refusal != nil {
		all["native"] = f.Refusal
	}
	return all
}

// Tree describes a server: one group of routes in a root.
type Tree struct {
	Use    []Step
	Prefix string // of the group; may be empty
	Group  []Step
	Routes []Route
}

// Step is one middleware. If Spy is set, the middleware calls Spy and the next
// handler; otherwise it is a guard with the other fields.
type Step struct {
	Limiter *core.Limiter
	Key     keyfuncs.Func
	Options []nethttp.Option

	Spy func()
}

// Route is a route of the group. A parameter in its pattern is written {id}.
type Route struct {
	Method, Pattern string
	Steps           []Step
	Handler         http.HandlerFunc
}

// noon is the time of a clock that stands still.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// store counts in memory, with a clock that stands still, and remembers how often
// and about which keys it was asked.
type store struct {
	core.Store
	keeps bool       // fails each Return
	mu    sync.Mutex // guards the fields below
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

// asked returns how often the store was asked since the last call of asked.
func (s *store) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.calls = 0
	return n
}

// counts are the counts of a store, which notes the calls of Take.
type counts struct {
	core.Counts
	store *store
}

func (c counts) Immediate() {}

func (c counts) Return(ctx context.Context, ask core.Back) (int64, error) {
	if c.store.keeps {
		return 0, errDown
	}
	return c.Counts.Return(ctx, ask)
}

func (c counts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	c.store.mu.Lock()
	c.store.calls++
	if !slices.Contains(c.store.keys, ask.Key) {
		c.store.keys = append(c.store.keys, ask.Key)
	}
	c.store.mu.Unlock()
	return c.Counts.Take(ctx, ask)
}

// Broken is a store that fails each call.
type Broken struct{}

var errDown = errors.New("down")

func (Broken) Bind(core.Rule) (core.Counts, error)                   { return Broken{}, nil }
func (Broken) Take(context.Context, core.Ask) (core.Decision, error) { return core.Decision{}, errDown }
func (Broken) Usage(context.Context, string) ([]core.Use, error)     { return nil, errDown }
func (Broken) Return(context.Context, core.Back) (int64, error)      { return 0, errDown }
func (Broken) Reset(context.Context, string) error                   { return errDown }

// Limiter returns a limiter with a store of its own. The store's clock stands
// still.
func Limiter(limits ...core.Limit) *core.Limiter { return on(newStore(), limits...) }

// on returns a limiter that counts in s.
func on(s core.Store, limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "test", Store: s, Limits: limits}))
}

// rule returns a limiter with other limits that counts in the store of l.
func rule(l *core.Limiter, name string, limits ...core.Limit) *core.Limiter {
	return core.Must(l.Rule(name, limits...))
}

// by returns the step of a limiter with the address of the peer as its key.
func by(l *core.Limiter, opts ...nethttp.Option) []Step {
	return []Step{{Limiter: l, Key: keyfuncs.RemoteIP, Options: opts}}
}

// page is a handler with the body "page": a test sees that it was reached.
func page(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("page")) }

// serve passes a request to h and returns the response. The target is parsed as a
// server parses it; header holds names and values in turn.
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

// expect checks a response: its status, and that the fields X-RateLimit-Limit and
// X-RateLimit-Remaining have one value each. An empty limit means that neither
// field may be set.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, limit, remaining string) {
	t.Helper()
	var wantLimit, wantRemaining []string
	if limit != "" {
		wantLimit, wantRemaining = []string{limit}, []string{remaining}
	}
	h := w.Header()
	if w.Code != status || !slices.Equal(h["X-Ratelimit-Limit"], wantLimit) ||
		!slices.Equal(h["X-Ratelimit-Remaining"], wantRemaining) {
		t.Fatalf("got %d %v\nwant %d, limit %q, remaining %q", w.Code, h, status, limit, remaining)
	}
}

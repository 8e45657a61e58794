package adaptertest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// heard is an observer that keeps the last event.
type heard struct {
	core.Event
	times int
}

func (h *heard) Observe(_ context.Context, e core.Event) { h.Event, h.times = e, h.times+1 }

// watched returns a limiter that counts in s; h hears of its events.
func watched(s core.Store, h core.Observer, limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "watched", Store: s, Limits: limits, Observer: h}))
}

// oneRoute is a server with a guard and a route /work that counts how often it is reached.
func oneRoute(adapter Adapter, guard Step, reached *int) http.Handler {
	return adapter.Build(Tree{Use: []Step{guard}, Routes: []Route{
		route("GET", "/work", nil, func(w http.ResponseWriter, r *http.Request) { *reached++; page(w, r) }),
	}})
}

// answer is what a client is to see of its limit.
type answer struct {
	status                   int
	limit, remaining, policy string
}

// expectAnswer checks what a client of a plan sees.
func expectAnswer(t *testing.T, h http.Handler, plan string, want answer) {
	t.Helper()
	w := serve(t, h, "GET", "/work", "X-Plan", plan)
	expect(t, w, want.status, want.limit, want.remaining)
	if got := w.Header().Get("RateLimit-Policy"); got != want.policy {
		t.Errorf("the policy is %q, want %q", got, want.policy)
	}
}

// bothFormats writes all fields.
var bothFormats = nethttp.WithHeaders(headers.Classic, headers.IETF)

// all checks that a client that its own limit refuses does not eat the limit of all.
func all(t *testing.T, adapter Adapter) {
	s := newStore()
	each, global := on(s, core.PerMinute(2)), rule(on(s, core.PerMinute(1)), "global", core.PerMinute(5).Named("all"))
	tenant := keyfuncs.Header("X-Plan")
	together := nethttp.All(nethttp.Pair{Limiter: global, Key: keyfuncs.Everyone})
	reached := 0
	h := oneRoute(adapter, Step{Limiter: each, Key: tenant, Options: []nethttp.Option{together, bothFormats}}, &reached)
	expectAnswer(t, h, "a", answer{200, "2", "1", `"1m0s";q=2;w=60`})
	expectAnswer(t, h, "a", answer{200, "2", "0", `"1m0s";q=2;w=60`})
	for range 20 {
		expectAnswer(t, h, "a", answer{429, "2", "0", `"1m0s";q=2;w=60`})
	}
	expectAnswer(t, h, "b", answer{200, "2", "1", `"1m0s";q=2;w=60`})
	expectAnswer(t, h, "b", answer{200, "2", "0", `"1m0s";q=2;w=60`})
	expectAnswer(t, h, "c", answer{200, "5", "0", `"all";q=5;w=60`})
	expectAnswer(t, h, "d", answer{429, "5", "0", `"all";q=5;w=60`})
	refused := s.keys[slices.IndexFunc(s.keys, func(key string) bool { return strings.HasSuffix(key, "d") })]
	if d := each.AllowN(context.Background(), refused, 0); d.Remaining != 2 || reached != 5 {
		t.Errorf("what the limit of all refused: %+v; the handler was reached %d times", d, reached)
	}

	nameless := nethttp.All(nethttp.Pair{Limiter: global, Key: keyfuncs.Header("X-Tenant")})
	h = oneRoute(adapter, Step{Limiter: each, Key: tenant, Options: []nethttp.Option{nameless}}, &reached)
	s.asked()
	expect(t, serve(t, h, "GET", "/work", "X-Plan", "e"), 400, "", "")
	if n := s.asked(); n != 0 {
		t.Errorf("the store was asked %d times about a request without a key", n)
	}
}

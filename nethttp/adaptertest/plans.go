package adaptertest

import (
	"context"
	"errors"
	"fmt"
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

// planOf is a tier function.
func planOf(r *http.Request) (string, error) {
	if plan := r.Header.Get("X-Plan"); plan != "broken" {
		return plan, nil
	}
	return "", errors.New("secret")
}

var tierLimits = map[string][]core.Limit{
	"free": {core.PerMinute(2)},
	"pro":  {core.PerMinute(5)},
	"max":  {core.PerHour(20).Named("hourly"), core.PerMinute(8)},
}

// tiers checks that each client has the limits of its tier, keeps what it has used when
// its tier changes, and reads about its own limits; and that an unknown tier is seen.
func tiers(t *testing.T, adapter Adapter) {
	var events heard
	reached := 0
	l := watched(newStore(), &events, core.PerMinute(2))
	h := oneRoute(adapter, by(l, bothFormats, nethttp.WithTiers(planOf, tierLimits))[0], &reached)
	expectAnswer(t, h, "free", answer{200, "2", "1", `"1m0s";q=2;w=60`})
	expectAnswer(t, h, "free", answer{200, "2", "0", `"1m0s";q=2;w=60`})
	expectAnswer(t, h, "free", answer{429, "2", "0", `"1m0s";q=2;w=60`})
	expectAnswer(t, h, "pro", answer{200, "5", "2", `"1m0s";q=5;w=60`})
	expectAnswer(t, h, "max", answer{200, "8", "4", `"hourly";q=20;w=3600, "1m0s";q=8;w=60`})
	expectAnswer(t, h, "free", answer{429, "2", "0", `"1m0s";q=2;w=60`})
	if events.Name != "watched" || events.times != 6 || reached != 4 {
		t.Errorf("%d events, the last %+v; the handler was reached %d times", events.times, events.Event, reached)
	}
	for _, plan := range []string{"gold", "", "broken"} {
		w := serve(t, h, "GET", "/work", "X-Plan", plan)
		expect(t, w, 500, "", "")
		if err := events.Decision.Err; !errors.Is(err, core.ErrLimits) || events.Status != 500 || reached != 4 ||
			plan == "gold" && !strings.Contains(err.Error(), plan) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("tier %q: %v, %s, reached %d times", plan, err, w.Body, reached)
		}
	}
	others := nethttp.WithDefaultTier("pro")
	h = oneRoute(adapter, by(l, bothFormats, nethttp.WithTiers(planOf, tierLimits), others)[0], &reached)
	expectAnswer(t, h, "gold", answer{200, "5", "0", `"1m0s";q=5;w=60`})
	expect(t, serve(t, h, "GET", "/work", "X-Plan", "broken"), 500, "", "")
}

// limitsByRequest checks limits by numbers of each request.
func limitsByRequest(t *testing.T, adapter Adapter) {
	limits := func(r *http.Request) ([]core.Limit, error) {
		var n int64
		switch plan := r.Header.Get("X-Plan"); plan {
		case "":
			return nil, nil
		case "broken":
			return nil, errors.New("secret")
		case "other":
			return []core.Limit{core.PerHour(9)}, nil
		default:
			_, err := fmt.Sscan(plan, &n)
			return []core.Limit{core.PerMinute(n)}, err
		}
	}
	var events heard
	reached := 0
	l := watched(newStore(), &events, core.PerMinute(2))
	h := oneRoute(adapter, by(l, bothFormats, nethttp.WithLimits(limits))[0], &reached)
	expectAnswer(t, h, "3", answer{200, "3", "2", `"1m0s";q=3;w=60`})
	expectAnswer(t, h, "1", answer{429, "1", "0", `"1m0s";q=1;w=60`})
	expectAnswer(t, h, "", answer{200, "2", "0", `"1m0s";q=2;w=60`})
	expectAnswer(t, h, "3", answer{200, "3", "0", `"1m0s";q=3;w=60`})
	for plan, want := range map[string]error{
		"broken": core.ErrLimits, "other": core.ErrInvalid, "0": core.ErrInvalid, "-1": core.ErrInvalid,
	} {
		expectAnswer(t, h, plan, answer{500, "", "", ""})
		if !errors.Is(events.Decision.Err, want) || events.Status != 500 {
			t.Errorf("%s: %+v", plan, events.Event)
		}
	}
	if reached != 3 {
		t.Errorf("the handler was reached %d times", reached)
	}
}

// setLimits checks that a guard that was made before a change of the limits shows the new
// numbers.
func setLimits(t *testing.T, adapter Adapter) {
	reached := 0
	l := newLimiter(core.PerMinute(2))
	h := oneRoute(adapter, by(l, bothFormats)[0], &reached)
	for _, c := range []struct {
		requests int64
		answer
	}{
		{2, answer{200, "2", "1", `"1m0s";q=2;w=60`}},
		{9, answer{200, "9", "7", `"1m0s";q=9;w=60`}},
		{1, answer{429, "1", "0", `"1m0s";q=1;w=60`}},
		{3, answer{200, "3", "0", `"1m0s";q=3;w=60`}},
	} {
		if err := l.SetLimits(core.PerMinute(c.requests)); err != nil {
			t.Fatal(err)
		}
		expectAnswer(t, h, "", c.answer)
	}
}

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

package nethttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// byHeader is a tier function that reads the field X-Plan.
func byHeader(r *http.Request) (string, error) { return r.Header.Get("X-Plan"), nil }

// TestPlanErrors: what is wrong with an option about plans is an error of construction.
func TestPlanErrors(t *testing.T) {
	l := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(3), core.PerHour(9)},
	}))
	tiers := func(limits ...core.Limit) nethttp.Option {
		return nethttp.WithTiers(byHeader, map[string][]core.Limit{"free": limits})
	}
	good := tiers(core.PerMinute(1), core.PerHour(1))
	numbers := nethttp.WithLimits(func(*http.Request) ([]core.Limit, error) { return nil, nil })
	for _, c := range []struct {
		opts []nethttp.Option
		want string
	}{
		{[]nethttp.Option{nethttp.WithTiers(nil, map[string][]core.Limit{"free": nil})}, "WithTiers(nil"},
		{[]nethttp.Option{nethttp.WithTiers(byHeader, nil)}, "without tiers"},
		{[]nethttp.Option{tiers()}, `sash: limiter "api": tier "free": limiter "api": no limits`},
		{[]nethttp.Option{tiers(core.PerMinute(0), core.PerHour(1))}, `tier "free": limits[0]: limit "1m0s" allows 0`},
		{[]nethttp.Option{tiers(core.PerMinute(0))}, `tier "free": limiter "api": limit "1m0s" allows 0`},
		{[]nethttp.Option{tiers(core.PerDay(1), core.PerDay(2))}, "two limits are named"},
		{[]nethttp.Option{good, good}, "twice or together"},
		{[]nethttp.Option{good, numbers}, "twice or together"},
		{[]nethttp.Option{nethttp.WithLimits(nil)}, "WithLimits(nil)"},
		{[]nethttp.Option{good, nethttp.WithDefaultTier("gold")}, `WithDefaultTier("gold")`},
		{[]nethttp.Option{good, nethttp.WithDefaultTier("free"), nethttp.WithDefaultTier("free")}, "already"},
		{[]nethttp.Option{nethttp.WithDefaultTier("free")}, "without WithTiers"},
		{[]nethttp.Option{numbers, nethttp.WithDefaultTier("free")}, "without WithTiers"},
		{[]nethttp.Option{nethttp.ShadowWhile(nil)}, "ShadowWhile(nil)"},
		{[]nethttp.Option{nethttp.SkipKeys(nil)}, "SkipKeys(nil)"},
		{[]nethttp.Option{nethttp.All()}, "at least one"},
		{[]nethttp.Option{
			nethttp.All(nethttp.Pair{Limiter: l, Key: alice}), nethttp.CountWhen(func(*http.Request, int) bool { return true }),
		}, "All does not go together with CountWhen"},
		{[]nethttp.Option{nethttp.All(nethttp.Pair{Key: alice})}, "pair 0 of All: the limiter is nil"},
		{[]nethttp.Option{nethttp.All(nethttp.Pair{Limiter: new(core.Limiter), Key: alice})}, "zero Limiter"},
		{[]nethttp.Option{nethttp.All(nethttp.Pair{Limiter: l, Key: alice}, nethttp.Pair{Limiter: l})}, "pair 1 of All"},
	} {
		if _, err := nethttp.New(l, alice, c.opts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v does not say %q", err, c.want)
		}
	}
	if _, err := nethttp.New(l, alice, nethttp.WithDefaultTier("free"), good); err != nil {
		t.Errorf("the default tier before the tiers: %v", err)
	}
}

// TestTierLimits: which limits of a tier share counts with those of the limiter.
func TestTierLimits(t *testing.T) {
	own := []core.Limit{core.PerMinute(10).Named("burst"), core.PerHour(100)}
	for name, c := range map[string]struct {
		tier      []core.Limit
		limit     string // that binds
		remaining int64  // after 4 requests of the limiter and one of the tier
		policy    string
	}{
		"named": {tier: []core.Limit{core.PerMinute(20).Named("burst"), core.PerHour(200)}, limit: "20", remaining: 15,
			policy: `"burst";q=20;w=60, "1h0m0s";q=200;w=3600`},
		"unnamed": {tier: []core.Limit{core.PerMinute(20), core.PerHour(200)}, limit: "20", remaining: 15,
			policy: `"burst";q=20;w=60, "1h0m0s";q=200;w=3600`},
		"in another order": {tier: []core.Limit{core.PerHour(200), core.PerMinute(20)}, limit: "20", remaining: 15,
			policy: `"burst";q=20;w=60, "1h0m0s";q=200;w=3600`},
		"fewer": {tier: []core.Limit{core.PerMinute(20)}, limit: "20", remaining: 15,
			policy: `"burst";q=20;w=60`},
		"more": {tier: []core.Limit{core.PerMinute(20), core.PerDay(18), core.PerHour(200)}, limit: "20", remaining: 15,
			policy: `"burst";q=20;w=60, "24h0m0s";q=18;w=86400, "1h0m0s";q=200;w=3600`},
		"another name": {tier: []core.Limit{core.PerMinute(20).Named("spike"), core.PerHour(200)}, limit: "20", remaining: 19,
			policy: `"spike";q=20;w=60, "1h0m0s";q=200;w=3600`},
		"another algorithm": {tier: []core.Limit{core.PerMinute(20).Using(core.SlidingCounter), core.PerHour(200)},
			limit: "20", remaining: 19, policy: `"1m0s";q=20;w=60, "1h0m0s";q=200;w=3600`},
	} {
		l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: own}))
		l.AllowN(context.Background(), "user:alice", 4)
		h := nethttp.Middleware(l, alice, nethttp.WithHeaders(headers.Classic, headers.IETF),
			nethttp.WithTiers(byHeader, map[string][]core.Limit{"t": c.tier}))(page)
		f := get(t, h, "/", "X-Plan", "t").Header()
		remaining := strconv.FormatInt(c.remaining, 10)
		if f.Get("X-RateLimit-Limit") != c.limit || f.Get("X-RateLimit-Remaining") != remaining ||
			f.Get("RateLimit-Policy") != c.policy {
			t.Errorf("%s: %s", name, flat(f))
		}
	}
}

// TestAllWithTiers: a tier is about the guard's limiter alone, whatever limits the others have.
func TestAllWithTiers(t *testing.T) {
	l := core.Must(core.New(core.Config{
		Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1), core.PerHour(2)},
	}))
	global := core.Must(l.Rule("global", core.PerMinute(5)))
	h := nethttp.Middleware(l, alice, nethttp.All(nethttp.Pair{Limiter: global, Key: keyfuncs.Everyone}),
		nethttp.WithTiers(byHeader, map[string][]core.Limit{
			"same": {core.PerMinute(10), core.PerHour(20)}, "other": {core.PerDay(30)},
		}))(page)
	for i, c := range []struct{ plan, remaining string }{{"same", "4"}, {"other", "3"}, {"same", "2"}} {
		w := get(t, h, "/", "X-Plan", c.plan)
		f := w.Header()
		limit, remaining := f.Get("X-RateLimit-Limit"), f.Get("X-RateLimit-Remaining")
		if w.Code != 200 || limit != "5" || remaining != c.remaining {
			t.Errorf("%d: %d %s", i, w.Code, flat(f))
		}
	}
}

// TestPlanOfLeaver: a request whose client left while its limits were looked up is answered
// as other requests with an ended context, not as a failure of the function; any other
// error is one, whatever it matches.
func TestPlanOfLeaver(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, context.Canceled, core.ErrStore, keyfuncs.ErrNoKey, core.ErrInvalid,
	} {
		h := guarded(admits(1, 0), nethttp.WithTiers(func(*http.Request) (string, error) { return "", err },
			map[string][]core.Limit{"free": {minute}}))
		if w := get(t, h, "/"); w.Code != http.StatusInternalServerError {
			t.Errorf("%v: got %d", err, w.Code)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	h := guarded(admits(1, 0), nethttp.WithLimits(func(r *http.Request) ([]core.Limit, error) {
		leave()
		return nil, r.Context().Err()
	}))
	w := serve(h, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable || w.Body.Len() > 0 {
		t.Errorf("a client that left: %d %s", w.Code, w.Body)
	}
}

// TestSetLimitsUnderLoad: fields that are prepared anew while requests are served say the
// number of the decision, and afterwards the latest one.
func TestSetLimitsUnderLoad(t *testing.T) {
	l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1000)}}))
	h := nethttp.Middleware(l, alice, nethttp.WithHeaders(headers.Classic, headers.IETF))(page)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 100 {
				if i == 0 {
					if err := l.SetLimits(core.PerHour(int64(1001 + n))); err != nil {
						t.Error(err)
					}
					continue
				}
				f := get(t, h, "/").Header()
				limit, err := strconv.Atoi(f.Get("X-RateLimit-Limit"))
				if err != nil || limit < 1000 || limit > 1100 {
					t.Errorf("%s", flat(f))
				}
			}
		})
	}
	group.Wait()
	if f := get(t, h, "/").Header(); f.Get("X-RateLimit-Limit") != "1100" ||
		f.Get("RateLimit-Policy") != `"1h0m0s";q=1100;w=3600` {
		t.Errorf("%s", flat(f))
	}
}

// TestSkipKeysNeedsAKey: a client without a name is exempt by none.
func TestSkipKeysNeedsAKey(t *testing.T) {
	skip := nethttp.SkipKeys(func(string) bool { return true })
	failing := func(*http.Request) (string, error) { return "", errors.New("unknown") }
	if w := get(t, nethttp.Middleware(limiter(admits(1, 0), nil), failing, skip)(page), "/"); w.Code != 500 {
		t.Errorf("got %d, want 500", w.Code)
	}
}

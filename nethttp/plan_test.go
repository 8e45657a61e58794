package nethttp_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// expectAnswer checks what a client of a plan sees.
func expectAnswer(t *testing.T, h http.Handler, plan string, status int, limit, remaining, policy string) {
	t.Helper()
	w := get(t, h, "/", "X-Plan", plan)
	f := w.Header()
	if w.Code != status || f.Get("X-RateLimit-Limit") != limit || f.Get("X-RateLimit-Remaining") != remaining ||
		f.Get("RateLimit-Policy") != policy || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("plan %q: got %d %v %s, want %d with %s of %s, %s",
			plan, w.Code, f, w.Body, status, remaining, limit, policy)
	}
}

// withLimits is a WithLimits by which X-Plan has a number.
var withLimits = nethttp.WithLimits(func(r *http.Request, _ string) ([]core.Limit, error) {
	switch plan := r.Header.Get("X-Plan"); plan {
	case "":
		return nil, nil
	case "broken":
		return nil, errors.New("secret")
	case "two":
		return []core.Limit{core.PerMinute(9), core.PerMinute(9)}, nil
	case "other":
		return []core.Limit{core.PerHour(9)}, nil
	default:
		n, err := strconv.ParseInt(plan, 10, 64)
		return []core.Limit{core.PerMinute(n)}, err
	}
})

var bothFormats = nethttp.WithHeaders(headers.XRateLimit, headers.IETF)

// TestWithLimits: each client has its own numbers on the same counts. Of wrong ones the policy decides.
func TestWithLimits(t *testing.T) {
	l, events := observed(memstore.New(), nil)
	h := nethttp.Middleware(l, alice, bothFormats, withLimits)(page)
	closed := nethttp.Middleware(l.WithPolicy(core.FailClosed), alice, bothFormats, withLimits)(page)
	expectAnswer(t, h, "3", 200, "3", "2", `"1m0s";q=3;w=60`)
	expectAnswer(t, h, "1", 429, "1", "0", `"1m0s";q=1;w=60`)
	expectAnswer(t, h, "", 200, "100", "98", `"1m0s";q=100;w=60`)
	expectAnswer(t, h, "3", 200, "3", "0", `"1m0s";q=3;w=60`)
	for _, plan := range []string{"broken", "other", "0", "-1", "two"} {
		*events = nil
		expectAnswer(t, h, plan, 200, "", "", "")
		expectAnswer(t, closed, plan, 503, "", "", "")
		if len(*events) != 2 || !errors.Is((*events)[0].Decision.Err, core.ErrLimits) {
			t.Errorf("%s: got %+v, want two events with ErrLimits", plan, *events)
		}
	}
}

// TestWithLimitsOfBucket: all fields have the window of a client's bucket.
func TestWithLimitsOfBucket(t *testing.T) {
	twice := nethttp.WithLimits(func(*http.Request, string) ([]core.Limit, error) {
		return []core.Limit{core.RateAndBurst(20, time.Hour, 20)}, nil
	})
	h := nethttp.Middleware(fakeclock.Limiter(core.RateAndBurst(10, time.Hour, 20)), alice, bothFormats, twice)(page)
	expectAnswer(t, h, "", 200, "20", "19", `"bucket";q=20;w=3600`)
}

// TestWithoutLimits: a limiter without limits decides by those of an option, in windows of their own, and its policy
// where there are none.
func TestWithoutLimits(t *testing.T) {
	l := core.Must(core.New(core.Config{Store: memstore.New(), OnStoreError: core.Fallback(memstore.New(), 1)}))
	h := nethttp.Middleware(l, alice, bothFormats, withLimits)(page)
	expectAnswer(t, h, "3", 200, "3", "2", `"1m0s";q=3;w=60`)
	expectAnswer(t, h, "2", 200, "2", "0", `"1m0s";q=2;w=60`)
	expectAnswer(t, h, "2", 429, "2", "0", `"1m0s";q=2;w=60`)
	expectAnswer(t, h, "other", 200, "9", "8", `"1h0m0s";q=9;w=3600`)
	for _, plan := range []string{"", "0", "two", "broken"} {
		expectAnswer(t, h, plan, 503, "", "", "")
	}
}

// TestWithLimiter: the limiter that is returned decides, with its limits, counts, policy,
// fields and observer.
func TestWithLimiter(t *testing.T) {
	own, events := observed(memstore.New(), nil)
	strangers, others := observed(memstore.New(), nil)
	limiters := map[string]*core.Limiter{
		"free":     core.Must(own.WithLimits(core.PerMinute(3))),
		"pro":      core.Must(own.WithLimits(core.PerMinute(5), core.PerHour(40))),
		"stranger": core.Must(strangers.Rule("stranger", core.PerMinute(9))),
		"zero":     new(core.Limiter),
		"none":     core.Must(core.New(core.Config{Store: memstore.New()})),
		"closed":   limiter(&fakeStore{err: errors.New("down")}, core.FailClosed),
	}
	h := nethttp.Middleware(own, alice, bothFormats, nethttp.WithLabel(func(*http.Request) string { return "label" }),
		nethttp.WithLimiter(func(r *http.Request, _ string) (*core.Limiter, error) {
			if plan := r.Header.Get("X-Plan"); plan != "broken" {
				return limiters[plan], nil
			}
			return nil, errors.New("secret")
		}))(page)
	expectAnswer(t, h, "free", 200, "3", "2", `"1m0s";q=3;w=60`)
	expectAnswer(t, h, "", 200, "100", "98", `"1m0s";q=100;w=60`)
	expectAnswer(t, h, "free", 200, "3", "0", `"1m0s";q=3;w=60`)
	expectAnswer(t, h, "free", 429, "3", "0", `"1m0s";q=3;w=60`)
	expectAnswer(t, h, "pro", 200, "5", "1", `"1m0s";q=5;w=60, "1h0m0s";q=40;w=3600`)
	expectAnswer(t, h, "closed", 503, "", "", "")
	expectAnswer(t, h, "stranger", 200, "9", "8", `"1m0s";q=9;w=60`)
	if len(*others) != 1 || (*others)[0].Rule != "stranger" || (*others)[0].Label != "label" {
		t.Errorf("the other observer got %+v, want one event of the rule stranger", *others)
	}
	for _, plan := range []string{"broken", "zero", "none"} {
		*events = nil
		expectAnswer(t, h, plan, 200, "", "", "") // fail open, as the guard's limiter
		if len(*events) != 1 || !errors.Is((*events)[0].Decision.Err, core.ErrLimits) {
			t.Errorf("%s: got %+v, want one event with ErrLimits", plan, *events)
		}
	}
}

// TestWithLimiterReturns: what does not count goes back to the limiter that has counted it.
func TestWithLimiterReturns(t *testing.T) {
	own := limiter(memstore.New(), nil)
	chosen := core.Must(own.Rule("chosen", core.PerMinute(5)))
	h := nethttp.Middleware(own, alice,
		nethttp.WithLimiter(func(*http.Request, string) (*core.Limiter, error) { return chosen, nil }),
		nethttp.CountWhen(func(r *http.Request, _ int) bool { return r.Header.Get("X-Counts") != "" }))(page)
	get(t, h, "/", "X-Counts", "yes")
	get(t, h, "/")
	for l, want := range map[*core.Limiter]int64{own: 100, chosen: 4} {
		if d := l.AllowN(t.Context(), "user:alice", 0); d.Remaining != want {
			t.Errorf("%v: got %d remaining, want %d", l, d.Remaining, want)
		}
	}
}

// TestPlanOfAll: limits and a limiter of the request are about the guard's limiter alone,
// whatever limits the others have, and about each other.
func TestPlanOfAll(t *testing.T) {
	l := fakeclock.Limiter(core.PerMinute(1))
	daily := core.Must(l.Rule("daily", core.PerDay(30).Named("1m0s")))
	global := core.Must(l.Rule("global", core.PerMinute(5).Named("all")))
	pair := nethttp.Pair{Limiter: global, Key: keyfuncs.AllClients}
	h := nethttp.Middleware(l, alice, bothFormats, nethttp.DecideAll(pair),
		withLimits, nethttp.WithLimiter(func(r *http.Request, _ string) (*core.Limiter, error) {
			switch r.Header.Get("X-Plan") {
			case "":
				return daily, nil
			case "broken":
				return nil, errors.New("secret")
			}
			return l, nil
		}))(page)
	expectAnswer(t, h, "10", 200, "5", "4", `"all";q=5;w=60`)
	expectAnswer(t, h, "", 200, "5", "3", `"all";q=5;w=60`)
	expectAnswer(t, h, "3", 200, "3", "1", `"1m0s";q=3;w=60`)
	expectAnswer(t, h, "2", 429, "2", "0", `"1m0s";q=2;w=60`)
	expectAnswer(t, h, "0", 200, "5", "1", `"all";q=5;w=60`) // fail open, but not the others
	expectAnswer(t, h, "broken", 200, "5", "0", `"all";q=5;w=60`)
	if d := daily.AllowN(t.Context(), "user:alice", 0); d.Remaining != 29 {
		t.Errorf("got %d of the day remaining, want 29", d.Remaining)
	}
}

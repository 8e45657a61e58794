package core_test

import (
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/internal/notice"
)

// TestConfigErrors holds every error to its promise: it says what was given,
// what is allowed, and what to write instead.
func TestConfigErrors(t *testing.T) {
	store := memstore.New()
	errBind := errors.New("this store takes no limits")
	one := []core.Limit{core.PerMinute(100)}
	wrong := func(c core.Config, says ...string) {
		t.Helper()
		l, err := core.New(c)
		if err == nil || l != nil || len(err.Error()) > 500 {
			t.Errorf("New returned %v and the error %v", l, err)
			return
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("the error %q does not say %q", err, s)
			}
		}
	}
	limits := func(l ...core.Limit) core.Config { return core.Config{Store: store, Limits: l} }
	wrongLimit := func(l core.Limit, says ...string) {
		t.Helper()
		wrong(limits(l), says...)
	}
	wrongLimit(core.Limit{}, "window of 0s", "from 1ms to 8784h0m0s")
	wrongLimit(core.PerMinute(0), `"1m0s" allows 0 requests`, "at least 1")
	wrongLimit(core.Per(1, time.Millisecond-1), "window of 999.999µs", "from 1ms")
	wrongLimit(core.Per(1, core.MaxWindow+1), "window of 8784h0m0.000000001s", "to 8784h0m0s (366 days)")
	wrongLimit(core.PerMinute(1).Using(9), `"1m0s"`, "algorithm 9: use a constant, such as core.SlidingLog")
	wrongLimit(core.PerHour(core.MaxLogRequests+1), "allows 1000001 requests", "at most 1000000",
		"Using(core.CoarseLog)", "core.SlidingCounter", "1099511627776")
	wrongLimit(core.PerHour(core.MaxCounterRequests+1).Using(core.SlidingCounter),
		"allows 1099511627777 requests", "at most 1099511627776 (2^40)")
	wrongLimit(core.PerHour(core.MaxCounterRequests+1).Using(core.Bucket),
		"allows 1099511627777 requests: a Bucket holds at most 1099511627776 (2^40)")
	wrongLimit(core.RateAndBurst(0, time.Second, 20), `"rate 0 in 1s, burst 20"`, "burst*per/rate", "above 0")
	wrongLimit(core.RateAndBurst(1, time.Second, -20), "burst -20", "above 0")
	wrongLimit(core.RateAndBurst(1, 0, 20), "in 0s", "above 0")
	wrongLimit(core.RateAndBurst(1_000_000, time.Second, 20), // refills too fast
		`"rate 1000000 in 1s, burst 20" has a window of 20µs`, "from 1ms", "burst*per/rate")
	wrongLimit(core.RateAndBurst(1, core.MaxWindow, math.MaxInt64), // too slowly
		`"rate 1 in 8784h0m0s, burst 9223372036854775807"`, "(366 days)", "burst*per/rate")
	// A float of 1/0, as the conversion makes it, and one that is no number.
	wrongLimit(core.RateAndBurst(1, math.MinInt64, 5),
		`"rate 1 in -2562047h47m16.854775808s, burst 5"`, "divided by a rate of 0")
	wrongLimit(core.Per(5, math.MinInt64).Named("x"), `"x"`, "divided by a rate of 0")
	wrongLimit(core.PerMinute(math.MinInt64), "allows -9223372036854775808")
	wrongLimit(core.Per(5, -time.Second), "window of -1s", "from 1ms")
	wrong(limits(core.PerMinute(1), core.PerHour(3), core.PerMinute(2)),
		`two limits are named "1m0s"`, "must differ", `core.Per(2, 60000000000 /* 1m0s */).Named("`)
	wrong(limits(core.PerMinute(1), core.PerMinute(1).Using(core.SlidingCounter)),
		`two limits are named "1m0s"`, `core.Per(1, 60000000000 /* 1m0s */).Using(core.SlidingCounter).Named("`)
	wrongLimit(core.PerMinute(1).Named(`a"b`), `limit name "a\"b"`, "header", "byte 1", "printable ASCII")
	wrongLimit(core.PerMinute(1).Named("täglich"), `"täglich"`, "header", "byte 1", "ASCII")
	wrongLimit(core.PerMinute(1).Named(strings.Repeat("é", 1<<20)), "limit name", "2097152 bytes", "at most 64")

	for _, none := range []core.Store{bindsNothing{}, bindsNothing{(*usesNothing)(nil)}} {
		wrong(core.Config{Store: none, Limits: one}, "core_test.bindsNothing", "neither a Ledger nor an error")
	}
	wrong(core.Config{Store: &fake{bindErr: errBind}, Limits: one}, errBind.Error())
	wrong(core.Config{Limits: one}, "Config.Store is nil", "memstore.New()", "redisstore.New(")
	wrong(core.Config{Store: (*memstore.Store)(nil)}, "Config.Store is a nil *memstore.Store", "memstore.New()")
	wrong(core.Config{Name: "a\r\nb", Store: store, Limits: one}, "limiter name", "header", "byte 1")
	wrong(core.Config{Store: store, Timeout: -1}, "Config.Timeout is -1ns", "at least 10µs", "default of 100ms")
	wrong(core.Config{Store: store, Timeout: 100}, "Config.Timeout is 100ns", "without a unit is nanoseconds")
	wrong(core.Config{Store: store, Quiet: []string{notice.LargeLog, "large-logs"}},
		`Config.Quiet has the code "large-logs": give some of`)

	policy := func(p core.Policy) core.Config { return core.Config{Store: store, Limits: one, OnStoreError: p} }
	wrong(core.Config{Store: store, OnStoreError: core.Fallback(nil, 1)}, "core.Fallback is nil") // for rules alone
	wrong(policy(core.Fallback(nil, 1)), "core.Fallback is nil", "memstore.New()")
	wrong(policy(core.Fallback(memory(), 0)), "core.Fallback for 0 replicas", "or 1 for")
	wrong(policy(core.Fallback((*fake)(nil), 1)), "core.Fallback is a nil *core_test.fake", "memstore.New()")
	wrong(policy(core.Fallback(store, 1)), "sash: the store of core.Fallback is Config.Store itself, a *memstore.Store",
		"another store", "memstore.New()", "core.FailOpen", "core.FailClosed")
	wrong(policy(core.Fallback(&fake{bindErr: errBind}, 1)), errBind.Error())
	wrong(policy(ownPolicy{}), "core_test.ownPolicy", "core.FailOpen", "core.Fallback")
	bind := funcStore(store.Bind)
	limiter(t, core.Config{Store: bind, OnStoreError: core.Fallback(bind, 1)}) // whether they are one is not known

	observer := func(o core.Observer) core.Config { return core.Config{Store: store, Limits: one, Observer: o} }
	log := slog.Default()
	wrong(observer(core.ObserverFunc(nil)), "Config.Observer is a nil core.ObserverFunc", "leave the field out")
	wrong(observer(core.Observers(core.Silent, nil)), "observer 2 of core.Observers is nil")
	wrong(observer(core.LogErrors(nil, time.Second)), "sash: core.LogErrors has no logger")
	wrong(observer(core.LogErrors(new(slog.Logger), time.Second)), "has no logger, or one without a handler")
	wrong(observer(core.LogErrors(log, -1)), "core.LogErrors(..., -1ns): give")
	wrong(observer(core.Observers(core.Silent, core.LogErrors(log, 60))), "core.LogErrors(..., 60ns): give")
	wrong(observer(core.LogRefusals(nil, time.Second)), "core.LogRefusals has no logger")
	wrong(observer(core.LogRefusals(log, 0)), "core.LogRefusals(..., 0s): give at least 1ms")
	for _, interval := range []time.Duration{0, time.Millisecond} { // the least
		limiter(t, observer(core.LogErrors(log, interval)))
	}
	limiter(t, observer(core.LogRefusals(log, time.Millisecond)))
}

// ownPolicy passes for a policy, since it embeds one.
type ownPolicy struct{ core.Policy }

// funcStore is a store that cannot be compared.
type funcStore func(core.Binding) (core.Ledger, error)

func (f funcStore) Bind(r core.Binding) (core.Ledger, error) { return f(r) }

// bindsNothing is a store with a mistake.
type bindsNothing struct{ counts core.Ledger }

func (b bindsNothing) Bind(core.Binding) (core.Ledger, error) { return b.counts, nil }

func TestRuleErrors(t *testing.T) {
	r, err := new(core.Limiter).Rule("login", core.PerMinute(1))
	if r != nil || err == nil || !strings.Contains(err.Error(), "core.New") {
		t.Errorf("a rule of a limiter that was not made: %v, %v", r, err)
	}
	if r, err = new(core.Limiter).WithLimits(core.PerMinute(1)); r != nil || err == nil {
		t.Errorf("other limits of a limiter that was not made: %v, %v", r, err)
	}
	l := limiter(t, core.Config{Name: "api"})
	for _, c := range []struct {
		name   string
		limits []core.Limit
		says   string
	}{
		{"", []core.Limit{core.PerMinute(1)}, `sash: limiter "api": a rule needs a name`},
		{strings.Repeat("r", 65), []core.Limit{core.PerMinute(1)}, "65 bytes"},
		{"log in ", []core.Limit{core.PerMinute(1)}, `the rule name "log in " begins or ends with a blank`},
		{"login", nil, "no limits"},
		{"login", []core.Limit{core.PerMinute(0)}, `sash: limiter "api", rule "login": limit "1m0s" allows 0 requests`},
	} {
		r, err := l.Rule(c.name, c.limits...)
		if err == nil || r != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Rule(%q, %v): %v and the error %v, want %q", c.name, c.limits, r, err, c.says)
		}
	}
}

func TestLimits(t *testing.T) {
	given := []core.Limit{core.PerSecond(1), core.PerMinute(2), core.PerHour(3), core.PerDay(4),
		core.Per(5, 90*time.Second).Using(core.SlidingCounter).Named("five")}
	want := []core.Limit{
		{"1s", 1, time.Second, core.SlidingLog},
		{"1m0s", 2, time.Minute, core.SlidingLog},
		{"1h0m0s", 3, time.Hour, core.SlidingLog},
		{"24h0m0s", 4, 24 * time.Hour, core.SlidingLog},
		{"five", 5, 90 * time.Second, core.SlidingCounter},
	}
	store := &fake{answer: answers(core.Decision{})}
	l := limiter(t, core.Config{Name: "api", Store: store, Limits: given})
	if !slices.Equal(l.Limits(), want) {
		t.Errorf("limits %v, want %v", l.Limits(), want)
	}
	if given[0].Name != "" {
		t.Error("New wrote into the caller's limits")
	}
	given[0].Requests = 99
	l.Limits()[1].Requests = 99
	store.bound[0].Limits[2].Requests = 99
	if !slices.Equal(l.Limits(), want) {
		t.Error("the limiter shares its limits with a caller or a store")
	}
	if r := store.bound[0]; r.Name != "api" || r.Rule != "" || len(r.Limits) != 5 || r.Limits[0].Name != "1s" {
		t.Errorf("the store was bound to %+v", r)
	}
	if l.Name() != "api" || l.RuleName() != "" {
		t.Errorf("called %q, %q", l.Name(), l.RuleName())
	}
}

// TestRateAndBurst: the bucket is as large as the burst, and never refills faster than said.
func TestRateAndBurst(t *testing.T) {
	for _, c := range []struct {
		rate  int64
		per   time.Duration
		burst int64
		want  time.Duration
	}{
		{10, time.Second, 20, 2 * time.Second},
		{1, time.Second, 200, 200 * time.Second},
		{60, time.Minute, 60, time.Minute},
		{3, time.Second, 1, 333_334 * time.Microsecond},
		{1 << 40, 24 * time.Hour, 1 << 40, 24 * time.Hour}, // the product has 87 bits
	} {
		l := core.RateAndBurst(c.rate, c.per, c.burst)
		if parsed, err := core.ParseLimit(l.String()); parsed != l || err != nil {
			t.Errorf("%v is read as %v, %v", l, parsed, err)
		}
		l = limiter(t, core.Config{Limits: []core.Limit{l}}).Limits()[0]
		if l.Requests != c.burst || l.Window != c.want || l.Algorithm != core.Bucket || l.Name != "bucket" {
			t.Errorf("%d in %v, burst %d: %v, want a window of %v", c.rate, c.per, c.burst, l, c.want)
		}
	}
}

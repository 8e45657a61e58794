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
	limits := func(l ...core.Limit) core.Config { return core.Config{Store: store, Limits: l} }
	one := []core.Limit{core.PerMinute(100)}
	policy := func(p core.Policy) core.Config { return core.Config{Store: store, Limits: one, OnStoreError: p} }
	observer := func(o core.Observer) core.Config { return core.Config{Store: store, Limits: one, Observer: o} }

	for _, c := range []struct {
		name   string
		config core.Config
		says   []string
	}{
		{"no store", core.Config{Limits: one}, []string{"Config.Store is nil", "memstore.New()", "redisstore.New("}},
		{"zero limit", limits(core.Limit{}), []string{"window of 0s", "from 1ms to 8784h0m0s"}},
		{"no requests", limits(core.PerMinute(0)), []string{`"1m0s" allows 0 requests`, "at least 1"}},
		{"window below 1 ms by 1 ns", limits(core.Per(1, time.Millisecond-1)),
			[]string{"window of 999.999µs", "from 1ms"}},
		{"window above 366 days by 1 ns", limits(core.Per(1, core.MaxWindow+1)),
			[]string{"window of 8784h0m0.000000001s", "to 8784h0m0s (366 days)"}},
		{"unknown algorithm", limits(core.PerMinute(1).Using(9)),
			[]string{`"1m0s"`, "algorithm 9: use a constant, such as core.SlidingLog"}},
		{"log too large", limits(core.PerHour(core.MaxLogRequests + 1)),
			[]string{"allows 1000001 requests", "at most 1000000", "Using(core.CoarseLog)", "core.SlidingCounter",
				"1099511627776"}},
		{"counter too large", limits(core.PerHour(core.MaxCounterRequests + 1).Using(core.SlidingCounter)),
			[]string{"allows 1099511627777 requests", "at most 1099511627776 (2^40)"}},
		{"bucket too large", limits(core.PerHour(core.MaxCounterRequests + 1).Using(core.Bucket)),
			[]string{"allows 1099511627777 requests: a Bucket holds at most 1099511627776 (2^40)"}},
		{"a rate of 0", limits(core.RateAndBurst(0, time.Second, 20)),
			[]string{`"rate 0 in 1s, burst 20"`, "burst*per/rate", "above 0"}},
		{"a burst below 0", limits(core.RateAndBurst(1, time.Second, -20)), []string{"burst -20", "above 0"}},
		{"a time of 0", limits(core.RateAndBurst(1, 0, 20)), []string{"in 0s", "above 0"}},
		{"a burst that refills too fast", limits(core.RateAndBurst(1_000_000, time.Second, 20)),
			[]string{`"rate 1000000 in 1s, burst 20" has a window of 20µs`, "from 1ms", "burst*per/rate"}},
		{"a burst that refills too slowly", limits(core.RateAndBurst(1, core.MaxWindow, math.MaxInt64)),
			[]string{`"rate 1 in 8784h0m0s, burst 9223372036854775807"`, "(366 days)", "burst*per/rate"}},
		{"a float of 1/0 in a rate", limits(core.RateAndBurst(1, math.MinInt64, 5)), // as the conversion makes it
			[]string{`"rate 1 in -2562047h47m16.854775808s, burst 5"`, "divided by a rate of 0"}},
		{"a float of 1/0", limits(core.Per(5, math.MinInt64).Named("x")), []string{`"x"`, "divided by a rate of 0"}},
		{"a negative window", limits(core.Per(5, -time.Second)), []string{"window of -1s", "from 1ms"}},
		{"a float that is no number", limits(core.PerMinute(math.MinInt64)), []string{"allows -9223372036854775808"}},
		{"two of one window", limits(core.PerMinute(1), core.PerHour(3), core.PerMinute(2)),
			[]string{`two limits are named "1m0s"`, "must differ", `core.Per(2, 60000000000 /* 1m0s */).Named("`}},
		{"one window, two algorithms", limits(core.PerMinute(1), core.PerMinute(1).Using(core.SlidingCounter)),
			[]string{`two limits are named "1m0s"`,
				`core.Per(1, 60000000000 /* 1m0s */).Using(core.SlidingCounter).Named("`}},
		{"limit name with a quote", limits(core.PerMinute(1).Named(`a"b`)),
			[]string{`limit name "a\"b"`, "header", "byte 1", "printable ASCII"}},
		{"limit name in German", limits(core.PerMinute(1).Named("täglich")),
			[]string{`"täglich"`, "header", "byte 1", "ASCII"}},
		{"limit name much too long", limits(core.PerMinute(1).Named(strings.Repeat("é", 1<<20))),
			[]string{"limit name", "2097152 bytes", "at most 64"}},
		{"limiter name with a newline", core.Config{Name: "a\r\nb", Store: store, Limits: one},
			[]string{"limiter name", "header", "byte 1"}},
		{"negative timeout", core.Config{Store: store, Limits: one, Timeout: -1},
			[]string{"Config.Timeout is -1ns", "at least 10µs", "default of 100ms"}},
		{"timeout without a unit", core.Config{Store: store, Limits: one, Timeout: 100},
			[]string{"Config.Timeout is 100ns", "without a unit is nanoseconds"}},
		{"fallback on nothing, for rules alone", core.Config{Store: store, OnStoreError: core.Fallback(nil, 1)},
			[]string{"core.Fallback is nil"}},
		{"fallback on nothing", policy(core.Fallback(nil, 1)), []string{"core.Fallback is nil", "memstore.New()"}},
		{"share of 0", policy(core.Fallback(memory(), 0)), []string{"core.Fallback for 0 replicas", "or 1 for"}},
		{"fallback on a nil pointer", policy(core.Fallback((*fake)(nil), 1)),
			[]string{"core.Fallback is a nil *core_test.fake", "memstore.New()"}},
		{"fallback on the limiter's own store", policy(core.Fallback(store, 1)),
			[]string{"sash: the store of core.Fallback is Config.Store itself, a *memstore.Store",
				"another store", "memstore.New()", "core.FailOpen", "core.FailClosed"}},
		{"the fallback's own", policy(core.Fallback(&fake{bindErr: errBind}, 1)), []string{errBind.Error()}},
		{"a policy of another package", policy(ownPolicy{}),
			[]string{"core_test.ownPolicy", "core.FailOpen", "core.Fallback"}},
		{"a nil pointer for a store", core.Config{Store: (*memstore.Store)(nil), Limits: one},
			[]string{"Config.Store is a nil *memstore.Store", "memstore.New()"}},
		{"a nil function for an observer", observer(core.ObserverFunc(nil)),
			[]string{"Config.Observer is a nil core.ObserverFunc", "leave the field out"}},
		{"errors to no logger", observer(core.LogErrors(nil, time.Second)),
			[]string{"sash: core.LogErrors has no logger"}},
		{"errors to no handler", observer(core.LogErrors(new(slog.Logger), time.Second)),
			[]string{"core.LogErrors has no logger, or one without a handler"}},
		{"errors at a negative interval", observer(core.LogErrors(slog.Default(), -1)),
			[]string{"core.LogErrors(..., -1ns): give"}},
		{"errors at an interval without a unit", observer(core.Observers(core.Silent, core.LogErrors(slog.Default(), 60))),
			[]string{"core.LogErrors(..., 60ns): give"}},
		{"one of no observers", observer(core.Observers(core.Silent, nil)),
			[]string{"observer 2 of core.Observers is nil"}},
		{"refusals to no logger", observer(core.LogRefusals(nil, time.Second)),
			[]string{"core.LogRefusals has no logger"}},
		{"refusals at no interval", observer(core.LogRefusals(slog.Default(), 0)),
			[]string{"core.LogRefusals(..., 0s): give at least 1ms"}},
		{"a code that is none", core.Config{Store: store, Limits: one, Quiet: []string{notice.LargeLog, "large-logs"}},
			[]string{`Config.Quiet has the code "large-logs": give some of`}},
		{"a store that binds nothing", core.Config{Store: bindsNothing{}, Limits: one},
			[]string{"core_test.bindsNothing", "neither a Ledger nor an error"}},
		{"a store that binds a nil pointer", core.Config{Store: bindsNothing{(*usesNothing)(nil)}, Limits: one},
			[]string{"neither a Ledger nor an error"}},
		{"the store's own", core.Config{Store: &fake{bindErr: errBind}, Limits: one}, []string{errBind.Error()}},
	} {
		l, err := core.New(c.config)
		if err == nil || l != nil {
			t.Errorf("%s: New returned %v and the error %v", c.name, l, err)
			continue
		}
		if len(err.Error()) > 500 {
			t.Errorf("%s: the error has %d bytes", c.name, len(err.Error()))
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error %q does not say %q", c.name, err, s)
			}
		}
	}
	for _, interval := range []time.Duration{0, time.Millisecond} { // the least
		limiter(t, observer(core.LogErrors(slog.Default(), interval)))
	}
	limiter(t, observer(core.LogRefusals(slog.Default(), time.Millisecond)))
	bind := funcStore(store.Bind)
	limiter(t, core.Config{Store: bind, OnStoreError: core.Fallback(bind, 1)}) // whether they are one is not known
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

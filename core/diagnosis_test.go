package core_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// notices is an observer that collects notices. It is safe for concurrent use.
type notices struct {
	mu  sync.Mutex
	all []core.Notice
}

func (n *notices) Observe(context.Context, core.Event) {}
func (n *notices) Notice(_ context.Context, heard core.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, heard)
}

// expect checks that notices with these codes, and no others, came since the last call.
func (n *notices) expect(t *testing.T, what string, codes ...string) []core.Notice {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	var got []string
	for _, heard := range n.all {
		got = append(got, heard.Code)
	}
	if !slices.Equal(got, codes) {
		t.Errorf("%s: the notices are %q, want %q", what, n.all, codes)
	}
	all := n.all
	n.all = nil
	return all
}

// TestOtherNumbers: limiters that share a count and allow different numbers are told of
// once, at a decision.
func TestOtherNumbers(t *testing.T) {
	var heard notices
	store := memstore.New()
	add := func(limits ...core.Limit) *core.Limiter {
		return limiter(t, core.Config{Name: "api", Store: store, Limits: limits, Observer: &heard})
	}
	first := add(core.PerMinute(10), core.PerHour(100))
	first.Allow(ctx, "k")
	add(core.PerMinute(10), core.PerHour(100)).Allow(ctx, "k")
	first.WithPolicy(core.FailClosed).Allow(ctx, "k")
	login := core.Must(first.Rule("login", core.PerMinute(5)))
	login.Allow(ctx, "k")
	add(core.PerDay(3)).Allow(ctx, "k")
	add(core.PerMinute(7).Named("other")).Allow(ctx, "k")
	add(core.PerMinute(7).Using(core.SlidingCounter)).Allow(ctx, "k")
	limiter(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(7)}, Observer: &heard}).Allow(ctx, "k")
	heard.expect(t, "limiters that share no count, or the numbers")

	other := add(core.PerMinute(10), core.PerHour(50))
	heard.expect(t, "before the first decision")
	for range 3 {
		other.Allow(ctx, "k")
		add(core.PerMinute(9)).Allow(ctx, "k")
	}
	said := heard.expect(t, "other numbers", core.NoticeOtherNumbers)
	if len(said) == 1 && (said[0].Name != "api" || said[0].Rule != "" ||
		!strings.Contains(said[0].Text, `limit "1h0m0s": one allows 100 requests, the other one 50`)) {
		t.Errorf("said %+v", said[0])
	}
	core.Must(first.Rule("login", core.PerMinute(6))).Allow(ctx, "k")
	if said = heard.expect(t, "a rule", core.NoticeOtherNumbers); len(said) == 1 && said[0].Rule != "login" {
		t.Errorf("said %+v", said[0])
	}
	runtime.KeepAlive(login)
}

// TestLoweredRulesAreQuiet: a fallback's share and the limits that it lowers after an
// outage are no other numbers.
func TestLoweredRulesAreQuiet(t *testing.T) {
	var heard notices
	second := memstore.New()
	store := &outages{immediate: immediate{err: errDown}}
	l := limiter(t, core.Config{Name: "api", Store: store, Observer: &heard,
		OnStoreError: core.Fallback(second, core.Share(2)), Limits: []core.Limit{core.PerMinute(100)}})
	l.Allow(ctx, "k")
	store.err = nil
	l.Allow(ctx, "k")
	limiter(t, core.Config{Name: "api", Store: second, Observer: &heard, Limits: []core.Limit{core.PerMinute(100)}}).
		Allow(ctx, "k")
	heard.expect(t, "lowered rules")
}

// TestUnnamed: two limiters without a name on one store are told of once.
func TestUnnamed(t *testing.T) {
	var heard notices
	store := memstore.New()
	add := func(limit core.Limit) *core.Limiter {
		return limiter(t, core.Config{Store: store, Limits: []core.Limit{limit}, Observer: &heard})
	}
	first := add(core.PerMinute(10))
	first.WithPolicy(core.FailClosed).Allow(ctx, "k")
	core.Must(first.Rule("login", core.PerMinute(5))).Allow(ctx, "k")
	limiter(t, core.Config{Observer: &heard}).Allow(ctx, "k")
	heard.expect(t, "one limiter without a name")
	for range 2 {
		add(core.PerMinute(5)).Allow(ctx, "k")
	}
	heard.expect(t, "two limiters without a name", core.NoticeUnnamed)
	runtime.KeepAlive(first)
}

// perRequest has many limiters made and used by serve, and checks which notices come.
func perRequest(t *testing.T, what string, heard *notices, serve func(), codes ...string) {
	t.Helper()
	for range 99 {
		serve()
	}
	heard.expect(t, what+", fewer")
	for range 300 {
		serve()
	}
	heard.expect(t, what, codes...)
}

// TestLimiterPerRequest: limiters that are made and used at once, a hundred in a minute,
// are told of once, on one store or on many.
func TestLimiterPerRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard notices
		one := memstore.New()
		use := func(c core.Config) *core.Limiter {
			c.Observer = &heard
			l := limiter(t, c)
			l.Allow(ctx, "k")
			return l
		}
		name := func(what string) string { return fmt.Sprintf("%s %p", what, &heard) } // another one with -count
		first := use(core.Config{Name: name("one"), Store: one})
		time.Sleep(2 * time.Minute)
		perRequest(t, "on one store", &heard, func() { use(core.Config{Name: name("one"), Store: one}) },
			core.NoticeLimiterPerRequest)
		perRequest(t, "rules", &heard, func() {
			core.Must(first.Rule("login", core.PerMinute(1))).Allow(ctx, "k")
		}, core.NoticeLimiterPerRequest)
		small := func() core.Store { return memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes)) }
		perRequest(t, "on many stores", &heard, func() { use(core.Config{Name: name("many"), Store: small()}) },
			core.NoticeLimiterPerRequest)
		for i := range 1000 {
			use(core.Config{Name: name(fmt.Sprint("tenant", i)), Store: one})
		}
		for range 300 {
			use(core.Config{Name: name("slowly"), Store: one})
			time.Sleep(time.Second)
		}
		var ahead []*core.Limiter
		for range 300 {
			ahead = append(ahead, limiter(t, core.Config{Name: name("ahead"), Store: one, Observer: &heard}))
		}
		time.Sleep(2 * time.Second)
		for _, l := range ahead {
			l.Allow(ctx, "k")
		}
		heard.expect(t, "names of their own, seldom, and made ahead")
		runtime.KeepAlive(first)
	})
}

// TestLargeLog: a log of more than a megabyte for each client is told of.
func TestLargeLog(t *testing.T) {
	for _, c := range []struct {
		limit core.Limit
		codes []string
	}{
		{core.PerHour(111_111), nil},
		{core.PerHour(111_112), []string{core.NoticeLargeLog}},
		{core.PerHour(1_000_000).Using(core.SlidingCounter), nil},
	} {
		var heard notices
		l := limiter(t, core.Config{Name: "api", Limits: []core.Limit{core.PerSecond(10), c.limit}, Observer: &heard})
		heard.expect(t, "before the first decision")
		l.Allow(ctx, "k")
		l.WithPolicy(core.FailClosed).Allow(ctx, "k")
		said := heard.expect(t, c.limit.String(), c.codes...)
		if len(said) == 1 && !strings.Contains(said[0].Text, "1.0 MB") {
			t.Errorf("said %q", said[0].Text)
		}
	}
}

// TestQuiet: each code can be turned off, for a limiter and its rules, and core.Silent
// turns all off.
func TestQuiet(t *testing.T) {
	var log lines
	log.asDefault(t)
	mistakes := func(c core.Config) {
		c.Name, c.Store, c.Limits = "", memstore.New(), []core.Limit{core.PerMinute(200_000)}
		l := limiter(t, c)
		limiter(t, c).Allow(ctx, "k")
		core.Must(l.Rule("login", core.PerMinute(1))).Allow(ctx, "k")
		core.Must(l.Rule("login", core.PerMinute(200_000))).Allow(ctx, "k")
	}
	all := []string{core.NoticeUnnamed, core.NoticeLargeLog, core.NoticeOtherNumbers}
	for _, quiet := range append(all, "") {
		c := core.Config{}
		if quiet != "" {
			c.Quiet = []string{quiet}
		}
		mistakes(c)
		got := strings.Join(log.take(), "\n")
		for _, code := range all {
			if said := strings.Contains(got, "code="+code); said != (code != quiet) {
				t.Errorf("quiet about %q: a line about %s: %v\n%s", quiet, code, said, got)
			}
		}
	}
	mistakes(core.Config{Quiet: all})
	mistakes(core.Config{Observer: core.Silent})
	expectLines(t, "quiet and silent", log.take())

	_, err := core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)},
		Quiet: []string{core.NoticeLargeLog, "large-logs"}})
	const says = `limiter "api": Config.Quiet has the code "large-logs": give some of`
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("an unknown code: %v", err)
	}
}

// TestHears: whether a notice is heard depends on the observer and on Quiet.
func TestHears(t *testing.T) {
	quiet := limiter(t, core.Config{Quiet: []string{core.NoticeLargeLog}})
	if quiet.Hears(core.NoticeLargeLog) || !quiet.Hears(core.NoticeUnnamed) {
		t.Error("a limiter that is quiet about one code")
	}
	deaf := core.ObserverFunc(func(context.Context, core.Event) {})
	for _, o := range []core.Observer{core.Silent, deaf} {
		var bound fake
		l := limiter(t, core.Config{Observer: o, Store: &bound})
		if l.Hears(core.NoticeUnnamed) || bound.bound[0].Notice != nil {
			t.Errorf("an observer of type %T hears of notices", o)
		}
	}
}

// TestNoticeOfStore: a store tells the observer what it has seen, once for all limiters
// that share their counts.
func TestNoticeOfStore(t *testing.T) {
	var heard notices
	var store fake
	for range 2 {
		limiter(t, core.Config{Name: "api", Observer: &heard, Store: &store})
	}
	for _, rule := range store.bound {
		rule.Notice(core.NoticeEvicting, "it evicts")
	}
	if said := heard.expect(t, "a store", core.NoticeEvicting); len(said) == 1 && said[0].Text != "it evicts" {
		t.Errorf("said %+v", said[0])
	}
}

// TestShared: limiters that share their counts have values in common.
func TestShared(t *testing.T) {
	store := memstore.New()
	create := func() any { return new(int) }
	first := limiter(t, core.Config{Name: "api", Store: store})
	want := first.Shared("a", create)
	for _, c := range []struct {
		what string
		l    *core.Limiter
		key  string
		same bool
	}{
		{"itself", first, "a", true},
		{"another policy", first.WithPolicy(core.FailClosed), "a", true},
		{"made again", limiter(t, core.Config{Name: "api", Store: store}), "a", true},
		{"another key", first, "b", false},
		{"another rule", core.Must(first.Rule("login", core.PerMinute(1))), "a", false},
		{"another store", limiter(t, core.Config{Name: "api"}), "a", false},
	} {
		if same := c.l.Shared(c.key, create) == want; same != c.same {
			t.Errorf("%s: the same value: %v", c.what, same)
		}
	}
	runtime.KeepAlive(first)
}

// uncomparable is a store that cannot be compared.
type uncomparable struct {
	*memstore.Store
	_ []int
}

// TestStoresAreFreed: what is known of limiters keeps neither them nor their stores in
// memory, and a store need not be comparable.
func TestStoresAreFreed(t *testing.T) {
	store := memstore.New()
	kept := weak.Make(store)
	for range 2 {
		limiter(t, core.Config{Name: "freed", Store: store, Observer: core.Silent}).Allow(ctx, "k")
		limiter(t, core.Config{Name: "freed", Store: uncomparable{Store: store}}).Allow(ctx, "k")
	}
	store = nil
	for range 10 {
		runtime.GC()
		if kept.Value() == nil {
			return
		}
	}
	t.Error("the store is still in memory")
}

package core_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// everyPolicy is one of each kind; the fallback, too, must not be asked.
func everyPolicy(second core.Store) map[string]core.Policy {
	return map[string]core.Policy{
		"open": core.FailOpen, "closed": core.FailClosed, "fallback": core.Fallback(second, 1),
	}
}

// TestUncountable: what no store could count, and a caller that has left, is refused whatever the policy, with its own
// error and no numbers, and no store is asked.
func TestUncountable(t *testing.T) {
	allows := answers(core.Decision{Allowed: true})
	store, second := &fake{answer: allows}, &fake{answer: allows}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	for name, policy := range everyPolicy(second) {
		l := limiter(t, core.Config{Store: store, OnStoreError: policy})
		for want, all := range map[error][]core.Decision{
			core.ErrInvalid: {l.Allow(ctx, ""), l.Peek(ctx, ""), l.AllowN(ctx, "k", -1),
				l.Decide(ctx, core.Request{Key: "k", Cost: -1, Peek: true})},
			context.Canceled:         {l.Allow(cancelled, "k"), l.AllowN(cancelled, "k", 0), l.Peek(cancelled, "k")},
			context.DeadlineExceeded: {l.Allow(late, "k"), l.AllowN(late, "k", 0), l.Peek(late, "k")},
		} {
			for i, d := range all {
				exact := want == core.ErrInvalid || d.Err == want
				if !errors.Is(d.Err, want) || errors.Is(d.Err, core.ErrStore) || !exact {
					t.Errorf("%s, %d: %+v, want the error %v", name, i, d, want)
				}
				if d.Err = nil; d != (core.Decision{}) {
					t.Errorf("%s, %d: numbers that nobody counted: %+v", name, i, d)
				}
			}
		}
		if err := l.Reset(ctx, ""); !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrStore) {
			t.Errorf("%s, Reset of an empty key: %v", name, err)
		}
	}
	if n := len(store.calls) + len(second.calls); n > 0 {
		t.Errorf("%d calls reached a store", n)
	}
}

// TestContextEndsMeanwhile: the caller leaves while the store is asked. The
// store's error says nothing about the store then, so no policy decides. A
// decision that the store returned even so is valid.
func TestContextEndsMeanwhile(t *testing.T) {
	second := &fake{answer: answers(core.Decision{Allowed: true})}
	for name, policy := range everyPolicy(second) {
		own, cancel := context.WithCancel(ctx)
		store := &fake{answer: func(context.Context) (core.Decision, error) {
			cancel()
			return core.Decision{}, errDown
		}}
		l := limiter(t, core.Config{Store: store, OnStoreError: policy})
		if d := l.Allow(own, "k"); d != (core.Decision{Err: context.Canceled}) {
			t.Errorf("%s: %+v", name, d)
		}
		counted := core.Decision{Allowed: true, Source: core.SourceCounted, Remaining: 2}
		own, cancel = context.WithCancel(ctx)
		store = &fake{answer: func(context.Context) (core.Decision, error) { cancel(); return counted, nil }}
		if d := limiter(t, core.Config{Store: store, OnStoreError: policy}).Allow(own, "k"); d != counted {
			t.Errorf("%s: %+v, want what was counted", name, d)
		}
	}
	if len(second.calls) > 0 {
		t.Error("the fallback was asked for a caller who had left")
	}

	// The caller leaves while the fallback is asked.
	own, cancel := context.WithCancel(ctx)
	second.answer = func(context.Context) (core.Decision, error) { cancel(); return core.Decision{}, errDown }
	l := limiter(t, core.Config{Store: &fake{answer: fails(errDown)}, OnStoreError: core.Fallback(second, 1)})
	if d := l.Allow(own, "k"); d != (core.Decision{Err: context.Canceled}) {
		t.Errorf("during the fallback: %+v", d)
	}
}

// TestDecideAsks checks what a store is asked for each of the calls.
func TestDecideAsks(t *testing.T) {
	want := core.Decision{Allowed: true, Limit: core.PerMinute(3), Remaining: 7, ResetAfter: 8, At: time.Unix(9, 0)}
	// The Err of a store's decision is ignored: a store returns its error separately. A
	// store that does not say where its decision comes from has counted.
	sloppy := want
	sloppy.Err, want.Source = errDown, core.SourceCounted
	store := &fake{answer: answers(sloppy)}
	l := limiter(t, core.Config{Name: "api", Store: store, OnStoreError: core.FailClosed})
	rule := core.Must(l.Rule("login", core.PerHour(1)))
	for i, c := range []struct {
		got    core.Decision
		rule   string
		cost   int64
		charge bool
	}{
		{l.Allow(ctx, "k"), "", 1, true},
		{l.AllowN(ctx, "k", 5), "", 5, true},
		{l.AllowN(ctx, "k", 0), "", 0, true},
		{l.AllowN(ctx, "k", math.MaxInt64), "", math.MaxInt64, true},
		{l.Peek(ctx, "k"), "", 1, false},
		{l.Decide(ctx, core.Request{Key: "k", Cost: 4, Peek: true, Label: "GET /"}), "", 4, false},
		{l.Decide(ctx, core.Request{Key: "k"}), "", 0, true},
		{rule.Allow(ctx, "k"), "login", 1, true},
	} {
		if c.got != want {
			t.Errorf("call %d: %+v, want the store's answer %+v", i, c.got, want)
		}
		if got := store.calls[i]; got.key != "k" || got.cost != c.cost || got.charge != c.charge ||
			got.rule.Rule != c.rule || got.rule.Name != "api" {
			t.Errorf("call %d: asked %+v", i, got)
		}
	}
}

// TestRuleOfARule: a rule of a rule is the rule of that name of the limiter.
func TestRuleOfARule(t *testing.T) {
	login := core.Must(limiter(t, core.Config{Name: "api"}).Rule("login", core.PerHour(2)))
	login.Allow(ctx, "k")
	again := core.Must(core.Must(login.Rule("other", core.PerHour(2))).Rule("login", core.PerHour(2)))
	if d := again.Allow(ctx, "k"); d.Remaining != 0 || again.RuleName() != "login" || again.Name() != "api" {
		t.Errorf("got %+v of %v, want no units left of login", d, again)
	}
}

func TestResetErrors(t *testing.T) {
	errSecond := errors.New("second down")
	ok := answers(core.Decision{})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, c := range []struct {
		name          string
		ctx           context.Context
		first, second func(context.Context) (core.Decision, error)
		is, not       []error
	}{
		{"both well", ctx, ok, ok, nil, []error{core.ErrStore}},
		{"the first fails", ctx, fails(errDown), ok, []error{core.ErrStore, errDown}, []error{core.ErrInvalid}},
		{"the second fails", ctx, ok, fails(errSecond), []error{core.ErrStore, errSecond}, []error{core.ErrInvalid}},
		{"both fail", ctx, fails(errDown), fails(errSecond), []error{core.ErrStore, errDown, errSecond}, nil},
		{"the caller left", ended, fails(errDown), ok, []error{context.Canceled},
			[]error{core.ErrStore, core.ErrInvalid}},
	} {
		first, second := &fake{answer: c.first}, &fake{answer: c.second}
		err := limiter(t, core.Config{Store: first, OnStoreError: core.Fallback(second, 1)}).Reset(c.ctx, "k")
		if (err != nil) != (c.is != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, e := range c.is {
			if !errors.Is(err, e) {
				t.Errorf("%s: %v is not %v", c.name, err, e)
			}
		}
		for _, e := range c.not {
			if errors.Is(err, e) {
				t.Errorf("%s: %v is %v", c.name, err, e)
			}
		}
		want := 1
		if c.ctx != ctx {
			want = 0
		}
		if len(first.calls) != want || len(second.calls) != want {
			t.Errorf("%s: got %d and %d calls, want %d each", c.name, len(first.calls), len(second.calls), want)
		}
	}
}

// TestObserver: an observer gets every decision, with all fields of the Event.
func TestObserver(t *testing.T) {
	type mark struct{}
	own := context.WithValue(ctx, mark{}, "mine")
	ended, cancel := context.WithCancel(own)
	cancel()
	var events []core.Event
	observer := core.ObserverFunc(func(ctx context.Context, e core.Event) {
		if ctx.Value(mark{}) != "mine" {
			t.Error("not the request's context")
		}
		events = append(events, e)
	})
	store := &fake{answer: answers(core.Decision{Allowed: true, Remaining: 2})}
	l := limiter(t, core.Config{Name: "api", Store: store, Observer: observer})
	login := core.Must(l.Rule("login", core.PerHour(1))).WithPolicy(core.FailClosed)

	decisions := []core.Decision{
		l.Allow(own, "k"),
		l.AllowN(own, "k", 3),
		l.Peek(own, "k"),
		login.Decide(own, core.Request{Key: "k", Cost: 2, Label: "POST /login"}),
		l.Allow(own, ""),
		l.AllowN(own, "k", -1),
		l.Allow(ended, "k"),
	}
	store.answer = fails(errDown)
	decisions = append(decisions, l.Allow(own, "k"), login.Allow(own, "k"))

	want := []core.Event{
		{Name: "api", Key: "k", Cost: 1},
		{Name: "api", Key: "k", Cost: 3},
		{Name: "api", Key: "k", Cost: 1, Peek: true},
		{Name: "api", Rule: "login", Label: "POST /login", Key: "k", Cost: 2},
		{Name: "api", Cost: 1},
		{Name: "api", Key: "k", Cost: -1},
		{Name: "api", Key: "k", Cost: 1},
		{Name: "api", Key: "k", Cost: 1},
		{Name: "api", Rule: "login", Key: "k", Cost: 1},
	}
	if len(events) != len(want) {
		t.Fatalf("%d events for %d decisions", len(events), len(want))
	}
	for i := range want {
		want[i].Decision = decisions[i]
		events[i].Elapsed = 0 // see TestElapsed
		if events[i] != want[i] {
			t.Errorf("event %d: %+v, want %+v", i, events[i], want[i])
		}
	}
	for i, is := range []error{
		4: core.ErrInvalid, 5: core.ErrInvalid, 6: context.Canceled, 7: core.ErrStore, 8: core.ErrStore,
	} {
		if !errors.Is(events[i].Decision.Err, is) {
			t.Errorf("event %d: error %v, want %v", i, events[i].Decision.Err, is)
		}
	}
}

// TestElapsed: an event says how long the stores have kept the request, the fallback
// included.
func TestElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elapsed time.Duration
		observer := core.ObserverFunc(func(_ context.Context, e core.Event) { elapsed = e.Elapsed })
		slow := &fake{answer: waits(30*time.Millisecond, core.Decision{Allowed: true})}
		l := limiter(t, core.Config{Store: slow, Observer: observer})
		if l.Allow(ctx, "k"); elapsed != 30*time.Millisecond {
			t.Errorf("a store that takes 30ms: %v", elapsed)
		}
		fallback := core.Fallback(&fake{answer: waits(20*time.Millisecond, core.Decision{Allowed: true})}, 1)
		l = limiter(t, core.Config{Store: &fake{answer: hangs}, OnStoreError: fallback, Observer: observer})
		if l.Allow(ctx, "k"); elapsed != 70*time.Millisecond {
			t.Errorf("a store that hangs and a fallback that takes 20ms: %v, want 70ms", elapsed)
		}
		if l.Allow(ctx, ""); elapsed != 0 {
			t.Errorf("a request about which no store is asked: %v", elapsed)
		}
	})
}

// TestElapsedInMemory: of the decisions of a store that never waits, a part is measured.
func TestElapsedInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured, other := 0, 0
		observer := core.ObserverFunc(func(_ context.Context, e core.Event) {
			switch e.Elapsed {
			case time.Millisecond:
				measured++
			case 0:
				other++
			}
		})
		store := memstore.New(memstore.WithClock(func() time.Time {
			time.Sleep(time.Millisecond)
			return time.Now()
		}))
		l := limiter(t, core.Config{Store: store, Observer: observer})
		const decisions = 2000
		for range decisions {
			l.Allow(ctx, "k")
		}
		if measured == 0 || other == 0 || measured+other != decisions {
			t.Errorf("of %d decisions %d took 1ms and %d were not measured, want both", decisions, measured, other)
		}
	})
}

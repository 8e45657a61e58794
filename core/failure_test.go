package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

func TestFailOpenAndClosed(t *testing.T) {
	store := &fake{answer: fails(errDown)}
	for _, c := range []struct {
		name    string
		policy  core.FailurePolicy
		allowed bool
	}{
		{"the default", nil, true},
		{"open", core.FailOpen, true},
		{"closed", core.FailClosed, false},
	} {
		l := limiter(t, core.Config{Store: store, OnStoreError: c.policy})
		for _, d := range []core.Decision{
			l.Allow(ctx, "k"), l.AllowN(ctx, "k", 0), l.AllowN(ctx, "k", 1_000_000), l.Peek(ctx, "k"),
		} {
			if d.Allowed != c.allowed || !errors.Is(d.Err, core.ErrStore) || !errors.Is(d.Err, errDown) {
				t.Errorf("%s: %+v", c.name, d)
			}
			if d.Err, d.Allowed = nil, false; d != (core.Decision{Source: core.FromPolicy}) {
				t.Errorf("%s: numbers that nobody counted: %+v", c.name, d)
			}
		}
	}
	// An error that matches ErrStore already is returned as it is.
	store.answer = fails(core.ErrStoreFull)
	if d := limiter(t, core.Config{Store: store}).Allow(ctx, "k"); d.Err != error(core.ErrStoreFull) {
		t.Errorf("a full store: %#v", d.Err)
	}
}

func TestFallback(t *testing.T) {
	first := &fake{answer: fails(errDown)}
	c := newClock()
	second := memstore.New(memstore.WithClock(c.Now))
	l := limiter(t, core.Config{Name: "api", Store: first, OnStoreError: core.Fallback(second)})
	for i := range int64(5) {
		peeked := l.Peek(ctx, "k")
		d := l.Allow(ctx, "k")
		if d.Allowed && (!errors.Is(d.Err, core.ErrStore) || !errors.Is(d.Err, errDown)) {
			t.Errorf("request %d: admitted without the first store, error %v", i, d.Err)
		}
		d.Err, peeked.Err = nil, nil
		want := core.Decision{
			Allowed: i < 3, Source: core.FromFallback,
			Limit: l.Limits()[0], Remaining: max(0, 2-i), ResetAfter: time.Minute, At: d.At,
		}
		if !want.Allowed {
			want.RetryAfter = time.Minute
		}
		if d != want || peeked != want || !d.At.Equal(c.Now()) {
			t.Errorf("request %d: %+v after a peek said %+v, want the fallback's numbers %+v", i, d, peeked, want)
		}
	}
	// The fallback counts under the same identity.
	if d := limiter(t, core.Config{Name: "api", Store: second}).Allow(ctx, "k"); d.Allowed {
		t.Errorf("the fallback counts under another identity: %+v", d)
	}
}

// TestFallbackFails: a request that neither store can decide is refused, and its
// error holds the errors of both.
func TestFallbackFails(t *testing.T) {
	errSecond := errors.New("disk full")
	for _, second := range []error{errSecond, core.ErrStoreFull} {
		l := limiter(t, core.Config{
			Store: &fake{answer: fails(errDown)}, OnStoreError: core.Fallback(&fake{answer: fails(second)}),
		})
		d := l.Allow(ctx, "k")
		if d.Allowed {
			t.Error("admitted, uncounted by both stores")
		}
		for _, is := range []error{core.ErrStore, errDown, second} {
			if !errors.Is(d.Err, is) {
				t.Errorf("%v does not tell of %v", d.Err, is)
			}
		}
		if d.Err = nil; d != (core.Decision{Source: core.FromPolicy}) {
			t.Errorf("numbers that nobody counted: %+v", d)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		requests int64
		replicas int
		want     int64
	}{
		{100, 1, 100}, {100, 2, 50}, {100, 3, 33}, {100, 100, 1}, {100, 101, 1}, {1, math.MaxInt, 1},
		{core.MaxLogRequests, 7, 142857},
	} {
		second := &fake{answer: answers(core.Decision{})}
		l := limiter(t, core.Config{
			Store: &fake{answer: fails(errDown)},
			Limits: []core.Limit{
				core.PerHour(c.requests), core.PerDay(2 * c.requests).Using(core.SlidingCounter),
			},
			OnStoreError: core.Fallback(second, core.Share(c.replicas)),
		})
		b := second.bound[0].Limits
		if b[0].Requests != c.want || b[1].Requests != max(1, 2*c.requests/int64(c.replicas)) {
			t.Errorf("Share(%d) of %d: bound to %v, want %d", c.replicas, c.requests, b, c.want)
		}
		if l.Limits()[0].Requests != c.requests {
			t.Errorf("Share(%d) changed the limiter's own limits to %v", c.replicas, l.Limits())
		}
	}

	// Three replicas, each alone with its memory: together no more than the limit.
	admitted := 0
	for range 3 {
		l := limiter(t, core.Config{
			Store: &fake{answer: fails(errDown)}, Limits: []core.Limit{core.PerHour(10)},
			OnStoreError: core.Fallback(memstore.New(), core.Share(3)),
		})
		for range 20 {
			if l.Allow(ctx, "k").Allowed {
				admitted++
			}
		}
	}
	if admitted != 9 {
		t.Errorf("three replicas admitted %d, want 3 each", admitted)
	}
}

func TestWithPolicy(t *testing.T) {
	store := &fake{answer: fails(errDown)}
	observed := 0
	open := limiter(t, core.Config{Name: "api", Store: store,
		Observer: core.ObserverFunc(func(context.Context, core.Event) { observed++ })})
	closed := open.WithPolicy(core.FailClosed)
	fallback := closed.WithPolicy(core.Fallback(memstore.New()))
	reopened := fallback.WithPolicy(nil)
	for range 2 { // deriving a limiter does not change the original
		for _, c := range []struct {
			name    string
			l       *core.Limiter
			allowed bool
			left    bool
		}{
			{"open", open, true, false}, {"closed", closed, false, false},
			{"fallback", fallback, true, true}, {"nil", reopened, true, false},
		} {
			if d := c.l.Allow(ctx, "k"); d.Allowed != c.allowed || (d.Limit.Name != "") != c.left || d.Err == nil {
				t.Errorf("%s: %+v", c.name, d)
			}
		}
	}
	if observed != 8 {
		t.Errorf("the observer heard of %d decisions of 8", observed)
	}

	memory := limiter(t, core.Config{Name: "api"})
	rule := core.Must(memory.Rule("login", core.PerMinute(2)))
	other := rule.WithPolicy(core.FailClosed)
	if other.RuleName() != "login" || other.Name() != "api" || other.Limits()[0] != rule.Limits()[0] {
		t.Errorf("WithPolicy of %q made %q with %v", rule.RuleName(), other.RuleName(), other.Limits())
	}
	rule.Allow(ctx, "k")
	if d := other.Allow(ctx, "k"); d.Remaining != 0 {
		t.Errorf("WithPolicy does not share the counts: %+v", d)
	}
	if d := rule.Allow(ctx, "k"); d.Allowed {
		t.Errorf("WithPolicy does not share the counts: %+v", d)
	}

	for name, wrong := range map[string]core.FailurePolicy{
		"nil store": core.Fallback(nil), "share": core.Fallback(memstore.New(), core.Share(0)),
	} {
		func() {
			defer func() {
				if _, ok := recover().(error); !ok {
					t.Errorf("WithPolicy took a fallback with a wrong %s", name)
				}
			}()
			memory.WithPolicy(wrong)
		}()
	}
}

// TestTimeout bounds stores that honour their context, to the nanosecond of a
// clock that moves only when every goroutine waits.
func TestTimeout(t *testing.T) {
	const ms = time.Millisecond
	ok := core.Decision{Allowed: true, Remaining: 7}
	for _, c := range []struct {
		name          string
		timeout       time.Duration
		first, second func(context.Context) (core.Decision, error) // without a second store: FailOpen
		memory        bool                                         // the second store is a memstore
		takes         time.Duration
		asked         time.Duration // when the second store is asked, after the start
		allowed       bool
		left          int64
	}{
		{name: "the default", first: hangs, takes: 100 * ms, allowed: true},
		{name: "short", timeout: 7 * ms, first: hangs, takes: 7 * ms, allowed: true},
		{name: "long", timeout: time.Hour, first: hangs, takes: time.Hour, allowed: true},
		{name: "just in time", first: waits(99*ms, ok), takes: 99 * ms, allowed: true, left: 7},
		{name: "just too late", first: waits(101*ms, ok), takes: 100 * ms, allowed: true},
		{name: "memory behind it", first: hangs, memory: true, takes: 100 * ms, allowed: true, left: 2},
		{name: "memory behind it, just in time", first: waits(99*ms, ok), memory: true, takes: 99 * ms, allowed: true,
			left: 7},
		{name: "both hang", first: hangs, second: hangs, takes: 100 * ms, asked: 50 * ms},
		{name: "the second is slow", first: hangs, second: waits(49*ms, ok), takes: 99 * ms, asked: 50 * ms,
			allowed: true, left: 7},
		{name: "the second is too slow", first: hangs, second: waits(51*ms, ok), takes: 100 * ms, asked: 50 * ms},
		{name: "the first fails soon", first: func(ctx context.Context) (core.Decision, error) {
			waits(10*ms, ok)(ctx)
			return fails(errDown)(ctx)
		}, second: hangs, takes: 60 * ms, asked: 10 * ms},
		{name: "the first fails at once", first: fails(errDown), second: waits(49*ms, ok), takes: 49 * ms,
			allowed: true, left: 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			first, second := &fake{answer: c.first}, &fake{answer: c.second}
			config := core.Config{Store: first, Timeout: c.timeout}
			if c.memory {
				config.OnStoreError = core.Fallback(memstore.New())
			} else if c.second != nil {
				config.OnStoreError = core.Fallback(second)
			}
			l := limiter(t, config)
			start := time.Now()
			d := l.Allow(ctx, "k")
			if took := time.Since(start); took != c.takes {
				t.Errorf("%s: took %v, want %v", c.name, took, c.takes)
			}
			if d.Allowed != c.allowed || d.Remaining != c.left {
				t.Errorf("%s: %+v, want %v with %d remaining", c.name, d, c.allowed, c.left)
			}
			counted := len(second.calls) == 0 && !c.memory && c.left > 0 || c.memory && c.left == 7
			if counted != (d.Err == nil) || !counted && !errors.Is(d.Err, core.ErrStore) {
				t.Errorf("%s: error %v", c.name, d.Err)
			}
			if c.second != nil {
				if len(second.calls) != 1 || second.calls[0].at.Sub(start) != c.asked {
					t.Errorf("%s: the second was asked %v, want once after %v", c.name, second.calls, c.asked)
				}
			}
			for _, asked := range append(first.calls, second.calls...) {
				if asked.ctx.Err() == nil {
					t.Errorf("%s: a context outlives its decision", c.name)
				}
			}
		})
	}
}

// TestTimeoutOfTheCaller: a caller that has less time than the limiter gets the
// error of its own context, and no policy decides.
func TestTimeoutOfTheCaller(t *testing.T) {
	for name, policy := range everyPolicy(&fake{answer: answers(core.Decision{Allowed: true})}) {
		synctest.Test(t, func(t *testing.T) {
			l := limiter(t, core.Config{Store: &fake{answer: hangs}, OnStoreError: policy})
			for what, make := range map[string]func() (context.Context, context.CancelFunc){
				"deadline": func() (context.Context, context.CancelFunc) {
					return context.WithTimeout(ctx, 30*time.Millisecond)
				},
				"cancel": func() (context.Context, context.CancelFunc) {
					own, cancel := context.WithCancel(ctx)
					time.AfterFunc(30*time.Millisecond, cancel)
					return own, cancel
				},
			} {
				own, cancel := make()
				start := time.Now()
				d := l.Allow(own, "k")
				if took := time.Since(start); took != 30*time.Millisecond {
					t.Errorf("%s, %s: took %v", name, what, took)
				}
				if d != (core.Decision{Err: own.Err()}) || d.Err == nil {
					t.Errorf("%s, %s: %+v", name, what, d)
				}
				cancel()
			}
		})
	}
}

// TestTimeoutOfReset: the first store cannot use up the second's time.
func TestTimeoutOfReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &fake{answer: hangs}, &fake{answer: waits(20*time.Millisecond, core.Decision{})}
		start := time.Now()
		err := limiter(t, core.Config{Store: first}).Reset(ctx, "k")
		if took := time.Since(start); took != 100*time.Millisecond || !errors.Is(err, core.ErrStore) {
			t.Errorf("one store: %v after %v", err, took)
		}
		start = time.Now()
		err = limiter(t, core.Config{Store: first, OnStoreError: core.Fallback(second)}).Reset(ctx, "k")
		if took := time.Since(start); took != 70*time.Millisecond || !errors.Is(err, core.ErrStore) {
			t.Errorf("two stores: %v after %v, want the second well and 70 ms", err, took)
		}
		second.answer = hangs
		start = time.Now()
		err = limiter(t, core.Config{Store: first, OnStoreError: core.Fallback(second)}).Reset(ctx, "k")
		if took := time.Since(start); took != 100*time.Millisecond || !errors.Is(err, core.ErrStore) {
			t.Errorf("both hang: %v after %v", err, took)
		}
	})
}

// TestImmediate: a store gets the caller's own context.
func TestImmediate(t *testing.T) {
	var asked context.Context
	l := limiter(t, core.Config{Store: storetest.Wrap(memory(),
		func(ctx context.Context, call storetest.Call) (core.Decision, error) {
			asked = ctx
			return call.Next(ctx)
		})})
	if d := l.Allow(ctx, "k"); d.Err != nil || asked != ctx {
		t.Errorf("got %+v, asked with the context %v, want %v", d, asked, ctx)
	}
}

// TestRemembered: a store that answers from memory costs no context and no timer, and is
// asked together with a fallback as other stores are.
func TestRemembered(t *testing.T) {
	store := &fake{answer: answers(core.Decision{Allowed: true, Remaining: 99}), remembers: true}
	l := limiter(t, core.Config{Store: store})
	want := core.Decision{Allowed: true, Source: core.Remembered, Remaining: 7}
	if d := l.AllowN(ctx, "known", 7); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	if d, want := l.Peek(ctx, "known"), (core.Decision{Source: core.Remembered, Remaining: 1}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	if n := testing.AllocsPerRun(100, func() { l.Allow(ctx, "known") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if d := l.Allow(gone, "known"); !errors.Is(d.Err, context.Canceled) || d.Allowed {
		t.Errorf("whoever has left gets %+v", d)
	}
	if d := l.Allow(ctx, "stranger"); d.Remaining != 99 || len(store.calls) != 1 {
		t.Errorf("%+v after %d calls", d, len(store.calls))
	}
	// The answers that the store remembers are used with a fallback too.
	policy := core.Fallback(memstore.New(memstore.WithClock(newClock().Now)))
	both := limiter(t, core.Config{Store: store, OnStoreError: policy})
	store.answer = fails(errDown)
	both.Allow(ctx, "stranger")
	for i := range 5 {
		if d := both.Allow(ctx, "known"); !d.Allowed || d.Err != nil {
			t.Errorf("request %d after a failure: %+v", i, d)
		}
	}
}

// TestPolicyInWords: a limiter tells its policy, the default one too.
func TestPolicyInWords(t *testing.T) {
	l := limiter(t, core.Config{})
	for _, c := range []struct {
		limiter *core.Limiter
		want    string
	}{
		{l, "fail open"},
		{l.WithPolicy(core.FailClosed), "fail closed"},
		{l.WithPolicy(core.FailClosed).WithPolicy(nil), "fail open"},
		{core.Must(l.WithPolicy(core.FailClosed).Rule("login", core.PerHour(1))), "fail closed"},
		{l.WithPolicy(core.Fallback(&fake{})), "fallback"},
		{l.WithPolicy(core.Fallback(&fake{}, core.Share(4))), "fallback, shared by 4"},
	} {
		if got := fmt.Sprint(c.limiter.Policy()); got != c.want {
			t.Errorf("the policy is %q, want %q", got, c.want)
		}
	}
}

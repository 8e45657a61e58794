package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// TestNobodyCounts: where no store decides, the policy does, with no numbers. The error holds those of all stores.
func TestNobodyCounts(t *testing.T) {
	store, errSecond := &fake{answer: fails(errDown)}, errors.New("disk full")
	for _, c := range []struct {
		name    string
		policy  core.Policy
		allowed bool
		is      error
	}{
		{"the default", nil, true, errDown},
		{"open", core.FailOpen, true, errDown},
		{"closed", core.FailClosed, false, errDown},
		{"a fallback that fails", core.Fallback(&fake{answer: fails(errSecond)}, 1), false, errSecond},
		{"a fallback that is full", core.Fallback(&fake{answer: fails(core.ErrStoreFull)}, 1), false, core.ErrStoreFull},
	} {
		l := limiter(t, core.Config{Store: store, OnStoreError: c.policy})
		for _, d := range []core.Decision{
			l.Allow(ctx, "k"), l.AllowN(ctx, "k", 0), l.AllowN(ctx, "k", 1_000_000), l.Peek(ctx, "k"),
		} {
			if d.Allowed != c.allowed || !errors.Is(d.Err, core.ErrStore) || !errors.Is(d.Err, errDown) ||
				!errors.Is(d.Err, c.is) {
				t.Errorf("%s: %+v", c.name, d)
			}
			if d.Err, d.Allowed = nil, false; d != (core.Decision{Source: core.SourcePolicy}) {
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

func TestWithPolicy(t *testing.T) {
	store := &fake{answer: fails(errDown)}
	observed := 0
	open := limiter(t, core.Config{Name: "api", Store: store,
		Observer: core.ObserverFunc(func(context.Context, core.Event) { observed++ })})
	closed := open.WithPolicy(core.FailClosed)
	fallback := closed.WithPolicy(core.Fallback(memstore.New(), 1))
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

	rule := core.Must(limiter(t, core.Config{Name: "api"}).Rule("login", core.PerMinute(2)))
	other := rule.WithPolicy(core.FailClosed)
	rule.Allow(ctx, "k")
	if d := other.Allow(ctx, "k"); d.Remaining != 0 || other.RuleName() != "login" || other.Name() != "api" {
		t.Errorf("got %+v of %q, want it to share the counts", d, other.RuleName())
	}

	for name, wrong := range map[string]core.Policy{
		"nil store": core.Fallback(nil, 1), "share": core.Fallback(memstore.New(), 0),
	} {
		func() {
			defer func() {
				if _, ok := recover().(error); !ok {
					t.Errorf("WithPolicy took a fallback with a wrong %s", name)
				}
			}()
			rule.WithPolicy(wrong)
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
		{name: "long", timeout: time.Hour, first: hangs, takes: time.Hour, allowed: true},
		{name: "just in time", first: waits(99*ms, ok), takes: 99 * ms, allowed: true, left: 7},
		{name: "just too late", first: waits(101*ms, ok), takes: 100 * ms, allowed: true},
		{name: "memory behind it", first: hangs, memory: true, takes: 100 * ms, allowed: true, left: 2},
		{name: "both hang", first: hangs, second: hangs, takes: 100 * ms, asked: 50 * ms},
		{name: "the second is slow", first: hangs, second: waits(49*ms, ok), takes: 99 * ms, asked: 50 * ms,
			allowed: true, left: 7},
		{name: "the second is too slow", first: hangs, second: waits(51*ms, ok), takes: 100 * ms, asked: 50 * ms},
		{name: "the first fails soon", first: func(ctx context.Context) (core.Decision, error) {
			waits(10*ms, ok)(ctx)
			return fails(errDown)(ctx)
		}, second: hangs, takes: 60 * ms, asked: 10 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			first, second := &fake{answer: c.first}, &fake{answer: c.second}
			config := core.Config{Store: first, Timeout: c.timeout}
			if c.memory {
				config.OnStoreError = core.Fallback(memstore.New(), 1)
			} else if c.second != nil {
				config.OnStoreError = core.Fallback(second, 1)
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
			own, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
			defer cancel()
			start := time.Now()
			d := l.Allow(own, "k")
			if took := time.Since(start); took != 30*time.Millisecond || d != (core.Decision{Err: context.DeadlineExceeded}) {
				t.Errorf("%s: %+v after %v, want the error of the context after 30ms", name, d, took)
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
		err = limiter(t, core.Config{Store: first, OnStoreError: core.Fallback(second, 1)}).Reset(ctx, "k")
		if took := time.Since(start); took != 70*time.Millisecond || !errors.Is(err, core.ErrStore) {
			t.Errorf("two stores: %v after %v, want the second well and 70 ms", err, took)
		}
		second.answer = hangs
		start = time.Now()
		err = limiter(t, core.Config{Store: first, OnStoreError: core.Fallback(second, 1)}).Reset(ctx, "k")
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
		{l.WithPolicy(core.Fallback(&fake{}, 1)), "fallback"},
		{l.WithPolicy(core.Fallback(&fake{}, 4)), "fallback, shared by 4"},
	} {
		if got := fmt.Sprint(c.limiter.Policy()); got != c.want {
			t.Errorf("the policy is %q, want %q", got, c.want)
		}
	}
}

package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestUncountedPolicies: where no store decides, the policy does, with no numbers. The error holds those of all stores.
func TestUncountedPolicies(t *testing.T) {
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
		{"a full fallback", core.Fallback(&fake{answer: fails(core.ErrStoreFull)}, 1), false, core.ErrStoreFull},
	} {
		l := limiter(t, core.Config{Store: store, OnStoreError: c.policy})
		for _, d := range []core.Decision{
			l.Allow(ctx, "k"), l.AllowN(ctx, "k", 0), l.AllowN(ctx, "k", 1_000_000), l.Peek(ctx, "k"),
		} {
			if d.Allowed != c.allowed || !isAll(d.Err, core.ErrStore, errDown, c.is) {
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

// TestWithPolicy: a limiter with another policy is on the same counts, and the original is as before.
func TestWithPolicy(t *testing.T) {
	store := newRecorder(0)
	open := limiter(t, core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerHour(9)}})
	login := core.Must(open.Rule("login", core.PerHour(9)))
	closed := login.WithPolicy(core.FailClosed)
	fallback := closed.WithPolicy(core.Fallback(memory(), 4))
	for i, c := range []struct {
		limiter *core.Limiter
		policy  string
		allowed bool
		left    int64
	}{
		{open, "fail open", true, 0},
		{closed, "fail closed", false, 0},
		{core.Must(closed.Rule("other", core.PerHour(9))), "fail closed", false, 0},
		{fallback, "fallback, shared by 4", true, 1},
		{closed.WithPolicy(core.Fallback(memory(), 1)), "fallback", true, 8},
		{fallback.WithPolicy(nil), "fail open", true, 0},
	} {
		store.down.Store(false)
		login.Allow(ctx, "k")
		if d := c.limiter.AllowN(ctx, "k", 0); c.limiter.RuleName() == "login" && d.Remaining != int64(8-i) {
			t.Errorf("%v: got %+v, want the counts of the rule", c.limiter, d)
		}
		store.down.Store(true)
		d := c.limiter.Allow(ctx, "k")
		if d.Allowed != c.allowed || d.Remaining != c.left || fmt.Sprint(c.limiter.Policy()) != c.policy {
			t.Errorf("%v: got %+v by the policy %v, want %v with %d left by %s",
				c.limiter, d, c.limiter.Policy(), c.allowed, c.left, c.policy)
		}
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), `rule "login": the store of`) {
			t.Errorf("WithPolicy panics with %v, want the error of New", err)
		}
	}()
	login.WithPolicy(core.Fallback(store, 1))
}

// TestTimeout bounds stores that honour their context, to the nanosecond of a
// clock that moves only when every goroutine waits.
func TestTimeout(t *testing.T) { synctest.Test(t, testTimeout) }

func testTimeout(t *testing.T) {
	const ms = time.Millisecond
	ok := core.Decision{Allowed: true, Remaining: 7}
	soon := func(ctx context.Context) (core.Decision, error) {
		waits(10*ms, ok)(ctx)
		return fails(errDown)(ctx)
	}
	for _, c := range []struct {
		name    string
		timeout time.Duration
		first   func(context.Context) (core.Decision, error)
		second  core.Store // without one: FailOpen
		takes   time.Duration
		asked   time.Duration // when the second store is asked, after the start, if it is a fake
		source  core.Source
		allowed bool
		left    int64
	}{
		{"the default", 0, hangs, nil, 100 * ms, 0, core.SourcePolicy, true, 0},
		{"just in time", 0, waits(99*ms, ok), nil, 99 * ms, 0, core.SourceCounted, true, 7},
		{"memory behind it", 0, hangs, memory(), 100 * ms, 0, core.SourceFallback, true, 2},
		{"both hang", time.Hour, hangs, &fake{answer: hangs}, time.Hour, time.Hour / 2, core.SourcePolicy, false, 0},
		{"a slow second", 0, hangs, &fake{answer: waits(49*ms, ok)}, 99 * ms, 50 * ms, core.SourceFallback, true, 7},
		{"the first fails soon", 0, soon, &fake{answer: hangs}, 60 * ms, 10 * ms, core.SourcePolicy, false, 0},
	} {
		config := core.Config{Store: &fake{answer: c.first}, Timeout: c.timeout}
		if c.second != nil {
			config.OnStoreError = core.Fallback(c.second, 1)
		}
		l, start := limiter(t, config), time.Now()
		d := l.Allow(ctx, "k")
		if took := time.Since(start); took != c.takes {
			t.Errorf("%s: took %v, want %v", c.name, took, c.takes)
		}
		counted := c.source == core.SourceCounted
		if d.Source != c.source || d.Allowed != c.allowed || d.Remaining != c.left ||
			counted && d.Err != nil || !counted && !errors.Is(d.Err, core.ErrStore) {
			t.Errorf("%s: %+v, want %v by the %v with %d remaining", c.name, d, c.allowed, c.source, c.left)
		}
		if f, ok := c.second.(*fake); ok && (len(f.calls) != 1 || f.calls[0].Sub(start) != c.asked) {
			t.Errorf("%s: the second was asked %v, want once after %v", c.name, f.calls, c.asked)
		}
	}
}

// TestTimeoutOfStore: the first store cannot use up the second's time, nor a store the caller's.
func TestTimeoutOfStore(t *testing.T) {
	const ms = time.Millisecond
	for name, call := range map[string]func(*core.Limiter, context.Context) error{
		"Reset": func(l *core.Limiter, ctx context.Context) error { return l.Reset(ctx, "k") },
		"Usage": func(l *core.Limiter, ctx context.Context) error { _, err := l.Usage(ctx, "k"); return err },
	} {
		for _, c := range []struct {
			second func(context.Context) (core.Decision, error)
			caller time.Duration
			takes  time.Duration
			is     error
		}{
			{nil, time.Hour, 100 * ms, core.ErrStore},
			{waits(20*ms, core.Decision{}), time.Hour, 70 * ms, core.ErrStore},
			{hangs, time.Hour, 100 * ms, core.ErrStore},
			{nil, 20 * ms, 20 * ms, context.DeadlineExceeded},
		} {
			synctest.Test(t, func(t *testing.T) {
				config := core.Config{Store: &fake{answer: hangs}}
				if c.second != nil {
					config.OnStoreError = core.Fallback(&fake{answer: c.second}, 1)
				}
				l, start := limiter(t, config), time.Now()
				err := call(l, within(c.caller))
				exact := err == c.is || c.is == core.ErrStore
				if took := time.Since(start); took != c.takes || !errors.Is(err, c.is) || !exact {
					t.Errorf("%s: %v after %v, want %v after %v", name, err, took, c.is, c.takes)
				}
			})
		}
	}
}

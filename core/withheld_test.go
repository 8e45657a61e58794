package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// slowMemory is a store that takes a while before and after it counts.
type slowMemory struct {
	core.Store
	before, after time.Duration
}

func (s slowMemory) Bind(rule core.Rule) (core.Counts, error) {
	counts, err := s.Store.Bind(rule)
	return slowCounts{counts, s}, err
}

type slowCounts struct {
	core.Counts
	store slowMemory
}

func (c slowCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	if !ask.Peek {
		time.Sleep(c.store.before)
		defer time.Sleep(c.store.after)
	}
	return c.Counts.Take(ctx, ask)
}

// TestCountIsNoted: what a slow fallback counts lowers the store's limit from the moment at which it is counted until
// it has left the window.
func TestCountIsNoted(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		before, after time.Duration // that the fallback takes
		looks         time.Duration // from the start of the request that the fallback counts
	}{
		"counted at once": {after: 20 * ms, looks: 10 * ms},
		"counted late":    {before: 20 * ms, looks: time.Second + 10*ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFlaky()
				store.down.Store(true)
				l := limiter(t, core.Config{
					Store: store, Limits: []core.Limit{core.PerSecond(10)},
					OnStoreError: core.Fallback(slowMemory{memory(), test.before, test.after}),
				})
				go l.Allow(ctx, "k")
				time.Sleep(test.looks)
				store.down.Store(false)
				if d := l.Peek(ctx, "k"); d.Err != nil || d.Remaining != 8 {
					t.Errorf("%+v, want 8 of 10: one counted, and one asked for", d)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// partFails is a store that fails for the rules of one limit with the given name.
type partFails struct {
	core.Store
	name string
	fail *error
	bind bool // fail in Bind
}

func (s partFails) Bind(rule core.Rule) (core.Counts, error) {
	counts, err := s.Store.Bind(rule)
	if len(rule.Limits) > 1 || rule.Limits[0].Name != s.name {
		return counts, err
	}
	if s.bind {
		return nil, *s.fail
	}
	return partFailsCounts{counts, s.fail}, err
}

type partFailsCounts struct {
	core.Counts
	fail *error
}

func (c partFailsCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	if *c.fail != nil {
		return core.Decision{}, *c.fail
	}
	return c.Counts.Take(ctx, ask)
}

// TestFallbackFailsInPart: a fallback that fails for one of the limits keeps nothing back by the others.
func TestFallbackFailsInPart(t *testing.T) {
	var fail error
	store := newFlaky()
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerMinute(10).Named("a"), core.PerHour(10).Named("b")},
		OnStoreError: core.Fallback(partFails{Store: memory(), name: "b", fail: &fail}),
	})
	store.down.Store(true)
	l.AllowN(ctx, "k", 5)
	store.down.Store(false)
	for _, test := range []struct {
		fail error
		want int64
	}{{nil, 5}, {errDown, 10}} {
		fail = test.fail
		if d := l.AllowN(ctx, "k", 0); d.Err != nil || d.Remaining != test.want {
			t.Errorf("with the error %v: %+v, want %d remaining", fail, d, test.want)
		}
	}
}

// TestFallbackBindFails: the error of a fallback that does not take a limit by itself is an error of New.
func TestFallbackBindFails(t *testing.T) {
	_, err := core.New(core.Config{
		Store: memory(), Limits: []core.Limit{core.PerMinute(10).Named("a"), core.PerHour(10).Named("b")},
		OnStoreError: core.Fallback(partFails{Store: memory(), name: "b", fail: &errDown, bind: true}),
	})
	if !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
}

// TestLoweredLimits: a limit that is lowered for a store is at least 1, whatever the request costs and however much
// the fallback has counted.
func TestLoweredLimits(t *testing.T) {
	for _, replicas := range []int{1, 3, 20} {
		for _, units := range []int64{1, 9, 10} {
			store, policy := &fake{answer: fails(errDown)}, core.Fallback(memory(), core.Share(replicas))
			l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(10)}, OnStoreError: policy})
			l.AllowN(ctx, "k", units)
			store.answer = answers(core.Decision{Allowed: true})
			for _, cost := range []int64{0, 1, 9, 10} {
				l.AllowN(ctx, "k", cost)
			}
			for _, call := range store.calls {
				if n := call.rule.Limits[0].Requests; n < 1 || n > 10 {
					t.Errorf("%d replicas, %d units: asked with a limit of %d", replicas, units, n)
				}
			}
		}
	}
}

// TestRetryOfLargeShare: RetryAfter is exact also where the fallback has admitted hundreds of units.
func TestRetryOfLargeShare(t *testing.T) {
	for _, cost := range []int64{250, 295, 300} {
		t.Run(fmt.Sprint(cost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFlaky()
				l := limiter(t, core.Config{
					Store: store, Limits: []core.Limit{core.PerHour(1000)}, OnStoreError: core.Fallback(memory()),
				})
				store.down.Store(true)
				for range 800 {
					l.Allow(ctx, "k")
					time.Sleep(time.Second)
				}
				store.down.Store(false)
				d := l.AllowN(ctx, "k", cost)
				if d.Allowed || d.RetryAfter <= 0 {
					t.Fatalf("%+v", d)
				}
				time.Sleep(d.RetryAfter - time.Microsecond)
				if d := l.AllowN(ctx, "k", cost); d.Allowed || d.RetryAfter != time.Microsecond {
					t.Errorf("too early: %+v", d)
				}
				time.Sleep(time.Microsecond)
				if d := l.AllowN(ctx, "k", cost); !d.Allowed {
					t.Errorf("in time: %+v", d)
				}
			})
		})
	}
}

// TestRetryIsPositive: a request that is refused by the first look at the fallback has a RetryAfter, also if by the
// second look the units have left.
func TestRetryIsPositive(t *testing.T) {
	second := &fake{answer: answers(core.Decision{Allowed: true, Remaining: 10})}
	store := newFlaky()
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerMinute(10)}, OnStoreError: core.Fallback(second),
	})
	store.down.Store(true)
	l.Allow(ctx, "k")
	store.down.Store(false)
	second.answer = func(context.Context) (core.Decision, error) {
		second.answer = answers(core.Decision{Allowed: true, Remaining: 10})
		return core.Decision{}, nil
	}
	if d := l.Allow(ctx, "k"); d.Allowed || d.RetryAfter != time.Microsecond {
		t.Errorf("%+v, want a refusal for a microsecond", d)
	}
}

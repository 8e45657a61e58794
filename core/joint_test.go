package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sashlimit/sash/core"
)

// jointStore is a store that decides requests by several rules in one step.
type jointStore struct {
	fake
	together func(asks []core.Ask) ([]core.Decision, error)
	steps    int
}

func (s *jointStore) Bind(rule core.Rule) (core.Counts, error) {
	return &jointCounts{fakeCounts{&s.fake, rule}, s}, nil
}

type jointCounts struct {
	fakeCounts
	store *jointStore
}

func (c *jointCounts) TakeJointly(
	_ context.Context, counts []core.Counts, asks []core.Ask,
) ([]core.Decision, error) {
	c.store.steps++
	if counts[0] != core.Counts(c) || len(counts) != len(asks) {
		return nil, errors.New("the receiver is not the first")
	}
	return c.store.together(asks)
}

// TestJointly: pairs of a store that can decide them in one step are decided so, and each
// observer hears of its own.
func TestJointly(t *testing.T) {
	var heard []core.Event
	hears := core.ObserverFunc(func(_ context.Context, e core.Event) { heard = append(heard, e) })
	s := &jointStore{}
	one := limiter(t, core.Config{Name: "one", Store: s, Observer: hears})
	all := limiter(t, core.Config{Name: "all", Store: s, Observer: hears, Limits: []core.Limit{core.PerHour(9)}})
	admitted := core.Decision{Allowed: true, Limit: core.PerMinute(3), Remaining: 2}
	refused := core.Decision{Limit: core.PerHour(9), RetryAfter: 5}
	s.answer = answers(admitted) // of pairs that are asked one by one
	pairs := []core.Pair{
		{Limiter: one, Request: core.Request{Key: "k", Cost: 1}}, {Limiter: all, Request: core.Request{Key: "all", Cost: 1}},
	}
	for _, c := range []struct {
		name    string
		answers []core.Decision
		err     error
		allowed bool
		binding int
		calls   int // of Take
		heard   []string
	}{
		{"admitted", []core.Decision{admitted, {Allowed: true, Limit: core.PerHour(9), Remaining: 1}}, nil, true, 1, 0,
			[]string{"one", "all"}},
		{"refused", []core.Decision{{Allowed: true}, refused}, nil, false, 1, 0, []string{"all"}},
		{"not in one step", nil, nil, true, 0, 2, []string{"one", "all"}},
		{"an outage", nil, errDown, true, 0, 0, []string{"one", "all"}},
	} {
		s.together = func([]core.Ask) ([]core.Decision, error) { return c.answers, c.err }
		heard, s.calls, s.steps = nil, nil, 0
		d, binding := core.Together(ctx, pairs...)
		if d.Allowed != c.allowed || binding != c.binding || errors.Is(d.Err, core.ErrStore) != (c.err != nil) {
			t.Errorf("%s: %+v of pair %d", c.name, d, binding)
		}
		if s.steps != 1 || len(s.calls) != c.calls || len(heard) != len(c.heard) {
			t.Errorf("%s: %d steps, %d calls, %d events", c.name, s.steps, len(s.calls), len(heard))
			continue
		}
		for i, name := range c.heard {
			if heard[i].Name != name || heard[i].Decision.Source == core.Unasked {
				t.Errorf("%s: %+v", c.name, heard[i])
			}
		}
	}
	s.steps = 0
	d, i := core.Together(ctx, pairs[0], core.Pair{Limiter: all})
	if !errors.Is(d.Err, core.ErrInvalid) || i != 1 || s.steps > 0 {
		t.Errorf("a pair without a key: %+v of pair %d, %d steps", d, i, s.steps)
	}
}

// TestJointlyFallback: in an outage the fallbacks decide, and what one refuses another one
// does not keep; after it the pairs are asked one by one while the fallback may count.
func TestJointlyFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &jointStore{together: func([]core.Ask) ([]core.Decision, error) { return nil, errDown }}
		s.answer = fails(errDown)
		policy := core.Fallback(memory())
		one := limiter(t, core.Config{Name: "one", Store: s, OnStoreError: policy, Observer: core.Silent})
		all := limiter(t, core.Config{
			Name: "all", Store: s, OnStoreError: policy, Observer: core.Silent, Limits: []core.Limit{core.PerMinute(1)},
		})
		pairs := []core.Pair{
			{Limiter: one, Request: core.Request{Key: "k", Cost: 1}}, {Limiter: all, Request: core.Request{Key: "all", Cost: 1}},
		}
		if d, _ := core.Together(ctx, pairs...); !d.Allowed || d.Source != core.FromFallback {
			t.Fatalf("%+v", d)
		}
		for range 3 {
			if d, i := core.Together(ctx, pairs...); d.Allowed || i != 1 || d.Source != core.FromFallback {
				t.Fatalf("%+v of pair %d", d, i)
			}
		}
		if d := one.AllowN(ctx, "k", 0); d.Remaining != 2 {
			t.Errorf("the other pair: %+v, want 2 remaining", d)
		}
	})
}

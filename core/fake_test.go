package core_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

var ctx = context.Background()

var errDown = errors.New("connection refused")

// call is one call that reached a fake store.
type call struct {
	ctx    context.Context
	rule   core.Rule
	key    string
	cost   int64
	charge bool
	at     time.Time
	reset  bool
}

// fake is a store that answers what it is told and remembers what it was asked.
type fake struct {
	bindErr   error
	answer    func(ctx context.Context) (core.Decision, error)
	remembers bool // answers the client "known" without a call
	calls     []call
	bound     []core.Rule
}

func (f *fake) Bind(rule core.Rule) (core.Counts, error) {
	if f.bindErr != nil {
		return nil, f.bindErr
	}
	f.bound = append(f.bound, rule)
	return fakeCounts{f, rule}, nil
}

type fakeCounts struct {
	*fake
	rule core.Rule
}

func (c fakeCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	if c.remembers && ask.Key == "known" {
		return core.Decision{Remaining: ask.Cost, Allowed: !ask.Peek, Source: core.Remembered}, nil
	}
	ctx, cancel := ask.Context(ctx)
	defer cancel()
	if ask.Special != nil && ask.Special.Limits != nil {
		c.rule.Limits = ask.Special.Limits
	}
	c.calls = append(c.calls, call{ctx, c.rule, ask.Key, ask.Cost, !ask.Peek, time.Now(), false})
	d, err := c.answer(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return d, err
}

func (c fakeCounts) Usage(ctx context.Context, key string) ([]core.Use, error) {
	c.calls = append(c.calls, call{ctx: ctx, rule: c.rule, key: key, at: time.Now()})
	d, err := c.answer(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil || d.Limit.Name == "none" {
		return nil, err
	}
	return make([]core.Use, len(c.rule.Limits)), nil
}

func (c fakeCounts) Return(ctx context.Context, back core.Back) (int64, error) {
	c.calls = append(c.calls, call{ctx: ctx, rule: c.rule, key: back.Key, cost: -back.Units, at: time.Now()})
	_, err := c.answer(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return back.Units, err
}

func (c fakeCounts) Reset(ctx context.Context, key string) error {
	c.calls = append(c.calls, call{ctx: ctx, rule: c.rule, key: key, at: time.Now(), reset: true})
	_, err := c.answer(ctx)
	return err
}

// flaky is a store that can be down, or so slow that it counts and answers too
// late.
type flaky struct {
	core.Store
	down, slow atomic.Bool
	asked      atomic.Int64
}

func newFlaky() *flaky { return &flaky{Store: memory()} }

func memory() *memstore.Store { return memstore.New(memstore.WithMaxBytes(1 << 20)) }

func (f *flaky) Bind(rule core.Rule) (core.Counts, error) {
	counts, err := f.Store.Bind(rule)
	return flakyCounts{counts, f}, err
}

type flakyCounts struct {
	core.Counts
	store *flaky
}

func (c flakyCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	c.store.asked.Add(1)
	if c.store.down.Load() {
		return core.Decision{}, errDown
	}
	d, err := c.Counts.Take(ctx, ask)
	if c.store.slow.Load() {
		ctx, cancel := ask.Context(ctx)
		defer cancel()
		<-ctx.Done()
		return core.Decision{}, ctx.Err()
	}
	return d, err
}

func (c flakyCounts) Usage(ctx context.Context, key string) ([]core.Use, error) {
	if c.store.down.Load() {
		return nil, errDown
	}
	return c.Counts.Usage(ctx, key)
}

func (c flakyCounts) Return(ctx context.Context, back core.Back) (int64, error) {
	if c.store.down.Load() {
		return 0, errDown
	}
	return c.Counts.Return(ctx, back)
}

func (c flakyCounts) Reset(ctx context.Context, key string) error {
	if c.store.down.Load() {
		return errDown
	}
	return c.Counts.Reset(ctx, key)
}

func fails(err error) func(context.Context) (core.Decision, error) {
	return func(context.Context) (core.Decision, error) { return core.Decision{}, err }
}

func answers(d core.Decision) func(context.Context) (core.Decision, error) {
	return func(context.Context) (core.Decision, error) { return d, nil }
}

// waits answers with d after some time, or with the context's error if the context
// ends before.
func waits(after time.Duration, d core.Decision) func(context.Context) (core.Decision, error) {
	return func(ctx context.Context) (core.Decision, error) {
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
			return d, nil
		case <-ctx.Done():
			return core.Decision{}, ctx.Err()
		}
	}
}

// hangs answers only when its context ends.
func hangs(ctx context.Context) (core.Decision, error) {
	<-ctx.Done()
	return core.Decision{}, ctx.Err()
}

// clock is a clock that stands still until it is told to go on.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func limiter(t testing.TB, c core.Config) *core.Limiter {
	t.Helper()
	if c.Store == nil {
		c.Store = memstore.New(memstore.WithClock(newClock().Now))
	}
	if c.Limits == nil {
		c.Limits = []core.Limit{core.PerMinute(3)}
	}
	l, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

var ctx = context.Background()

var errDown = errors.New("connection refused")

// fake is a store with a fixed answer, which records its calls.
type fake struct {
	bindErr error
	answer  func(ctx context.Context) (core.Decision, error) // nil admits
	calls   []time.Time
	bound   []core.Binding
}

func (f *fake) Bind(rule core.Binding) (core.Ledger, error) {
	if f.bindErr != nil {
		return nil, f.bindErr
	}
	f.bound = append(f.bound, rule)
	return storetest.Wrap(storetest.Fixed(core.Decision{Allowed: true}), f.call).Bind(rule)
}

func (f *fake) call(ctx context.Context, c storetest.Call) (core.Decision, error) {
	ctx, cancel := c.Ask.Context(ctx)
	defer cancel()
	f.calls = append(f.calls, time.Now())
	if f.answer == nil {
		return c.Next(ctx)
	}
	d, err := f.answer(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return d, err
}

// recorder is a store in memory, with the clock of the bubble, that records its requests. It can be down, or so slow
// that it counts and answers too late. An answer takes trip.
type recorder struct {
	core.Store
	down, slow atomic.Bool
	asks       atomic.Int64

	mu       sync.Mutex
	outcomes []storetest.Outcome
}

func newRecorder(trip time.Duration) *recorder {
	a := &recorder{}
	a.Store = storetest.Wrap(memory(), func(ctx context.Context, call storetest.Call) (d core.Decision, err error) {
		if call.Verb == "Take" {
			time.Sleep(trip / 2)
			defer time.Sleep(trip / 2)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.asks.Add(1)
		}
		if a.down.Load() {
			return d, errDown
		}
		if d, err = call.Next(ctx); call.Verb == "Take" {
			a.outcomes = append(a.outcomes, storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: call.Ask.Cost})
			if a.slow.Load() {
				time.Sleep(call.Ask.Timeout)
				return core.Decision{}, core.ErrTimeout
			}
		}
		return d, err
	})
	return a
}

// isAll reports whether an error matches all of others.
func isAll(err error, others ...error) bool {
	return !slices.ContainsFunc(others, func(other error) bool { return !errors.Is(err, other) })
}

func memory() *memstore.Store { return memstore.New(memstore.WithMaxBytes(1 << 20)) }

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
		select {
		case <-time.After(after):
			return d, nil
		case <-ctx.Done():
			return core.Decision{}, ctx.Err()
		}
	}
}

// hangs answers only when its context ends.
var hangs = waits(1<<62, core.Decision{})

func limiter(t testing.TB, c core.Config) *core.Limiter {
	t.Helper()
	if c.Store == nil {
		c.Store = memory()
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

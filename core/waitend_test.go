package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// within returns a context with a deadline.
func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// TestWaitTooLate: a wait that the deadline would cut off ends at once, whether the counts or
// the waiters ahead make it too long, and so does one that turns out to be too long.
func TestWaitTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsked(0)
		l := limiter(t, core.Config{Name: "x", Store: store, Limits: []core.Limit{core.PerMinute(1)}})
		l.Allow(ctx, "k")
		start := time.Now()
		d, err := l.Wait(within(time.Minute), "k") // the context ends when the unit comes back
		if !errors.Is(err, core.ErrTooLate) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrStore) {
			t.Errorf("error %v", err)
		}
		if d.Allowed || d.RetryAfter != time.Minute || d.Source != core.Counted || d.Err != nil {
			t.Errorf("%+v, want the store's refusal", d)
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
		if d, err := l.Wait(within(time.Minute+1), "k"); err != nil || !d.Allowed || time.Since(start) != time.Minute {
			t.Errorf("%+v, %v after %v", d, err, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := newAsked(0)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerSecond(10)}})
		start := time.Now()
		var mu sync.Mutex
		admitted, late := 0, 0
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				d, err := l.Wait(within(2500*time.Millisecond), "k")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					admitted++
				} else if late++; !errors.Is(err, core.ErrTooLate) || time.Since(start) != 0 || !errors.Is(d.Err, err) ||
					d.RetryAfter < 3*time.Second || d.Source != core.Unasked {
					t.Errorf("%+v, %v after %v", d, err, time.Since(start))
				}
			})
		}
		group.Wait()
		if admitted != 30 || late != 20 {
			t.Errorf("%d admitted, %d too late, want 30 and 20", admitted, late)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the first learns how long it takes while others wait behind it
		store := newAsked(20 * time.Millisecond)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(10)}})
		l.AllowN(ctx, "k", 10)
		start := time.Now()
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				deadline := 90*time.Second + time.Duration(i/15)*time.Hour
				_, err := l.Wait(within(deadline), "k")
				late := i >= 10 && i < 15 // behind those that take the second minute
				if took := time.Since(start); late != errors.Is(err, core.ErrTooLate) || late && took != 20*time.Millisecond {
					t.Errorf("%d: %v after %v", i, err, took)
				}
			})
			synctest.Wait()
		}
		group.Wait()
	})
}

// TestWaitNever: what can never pass is not waited for, nor asked.
func TestWaitNever(t *testing.T) {
	store := newAsked(0)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(5), core.PerHour(50)}})
	d, err := l.WaitN(ctx, "k", 6)
	if !errors.Is(err, core.ErrNever) || !errors.Is(d.Err, err) || d.RetryAfter != core.Never || d.Limit.Requests != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	for _, want := range []string{"sash: ", "a cost of 6", "the limit 5/1m"} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("%v: want %q once", err, want)
		}
	}
	if asks, _ := store.numbers(); asks != 0 {
		t.Errorf("%d asks", asks)
	}
}

// TestWaitInvalid: a malformed call and a context that has ended are errors, and the
// observer hears of them as of those of Allow.
func TestWaitInvalid(t *testing.T) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	heard := 0
	l := limiter(t, core.Config{Observer: core.ObserverFunc(func(context.Context, core.Event) { heard++ })})
	for _, c := range []struct {
		ctx  context.Context
		key  string
		n    int64
		want error
	}{{ctx, "", 1, core.ErrInvalid}, {ctx, "k", -1, core.ErrInvalid}, {ended, "k", 1, context.Canceled}} {
		if d, err := l.WaitN(c.ctx, c.key, c.n); !errors.Is(err, c.want) || d.Allowed || !errors.Is(d.Err, c.want) {
			t.Errorf("%q, %d: %+v, %v", c.key, c.n, d, err)
		}
	}
	if heard != 3 {
		t.Errorf("the observer heard of %d calls", heard)
	}
	if d, err := l.WaitN(ctx, "k", 0); err != nil || !d.Allowed || d.Remaining != 3 {
		t.Errorf("a cost of 0: %+v, %v", d, err)
	}
}

// TestWaitClosed: while the store fails under a closed policy, one waiter asks now and then,
// and goes on when the store is back. A deadline before the next try ends the wait at once.
func TestWaitClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsked(0)
		l := limiter(t, core.Config{
			Store: store, Limits: []core.Limit{core.PerSecond(10)}, OnStoreError: core.FailClosed, Observer: core.Silent,
		})
		store.fail(errDown)
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if d, err := l.Wait(ctx, "k"); err != nil || !d.Allowed || d.Err != nil {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		time.Sleep(time.Second)
		if asks, _ := store.numbers(); asks < 4 || asks > 6 {
			t.Errorf("%d tries in a second", asks)
		}
		time.Sleep(time.Hour)
		if asks, _ := store.numbers(); asks < 3600/5 || asks > 2*3600/5+6 {
			t.Errorf("%d tries in an hour", asks)
		}
		start := time.Now()
		d, err := l.Wait(within(time.Millisecond), "k")
		if !errors.Is(err, core.ErrTooLate) || !errors.Is(err, core.ErrStore) || !errors.Is(err, errDown) || d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
		if n := strings.Count(err.Error(), "sash:"); n != 1 || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		store.fail(nil)
		group.Wait()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the last was admitted %v after the outage", took)
		}
	})
}

// TestWaitOpen: while the store fails under an open policy, all go on, and a store that
// hangs keeps them little longer than one Allow.
func TestWaitOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, core.Config{
			Store: hanging{memory()}, Limits: []core.Limit{core.PerHour(1)}, Timeout: 100 * time.Millisecond,
			Observer: core.Silent,
		})
		start := time.Now()
		for _, w := range work(50, 1, 0, l) {
			if w.err != nil {
				t.Error(w.err)
			}
		}
		if took := time.Since(start); took > 400*time.Millisecond {
			t.Errorf("%v", took)
		}
	})
}

// hanging is a store that never answers.
type hanging struct{ core.Store }

func (h hanging) Bind(rule core.Rule) (core.Counts, error) {
	counts, err := h.Store.Bind(rule)
	return hangingCounts{counts}, err
}

type hangingCounts struct{ core.Counts }

func (hangingCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	ctx, cancel := ask.Context(ctx)
	defer cancel()
	<-ctx.Done()
	return core.Decision{}, context.Cause(ctx)
}

// TestWaitOutageEnds: an outage that all requests of a round run into counts as one failed
// try, and after an outage under an open policy as few ask as before.
func TestWaitOutageEnds(t *testing.T) {
	for _, policy := range []core.FailurePolicy{core.FailClosed, core.FailOpen} {
		synctest.Test(t, func(t *testing.T) {
			store := newAsked(10 * time.Millisecond)
			l := limiter(t, core.Config{
				Store: store, Limits: []core.Limit{core.PerSecond(30)}, OnStoreError: policy, Observer: core.Silent,
			})
			start := time.Now()
			time.AfterFunc(11*time.Millisecond, func() { store.fail(errDown) })
			time.AfterFunc(33*time.Millisecond, func() { store.fail(nil) })
			for _, w := range work(200, 1, 0, l) {
				if w.err != nil {
					t.Error(w.err)
				}
			}
			asks, _ := store.numbers()
			if took := time.Since(start); asks > 240 || took > 8*time.Second {
				t.Errorf("%d asks for 200 in %v", asks, took)
			}
		})
	}
}

// TestWaitFallback: what the share of a fallback never admits may pass when the store is back.
func TestWaitFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsked(0)
		l := limiter(t, core.Config{
			Store: store, Limits: []core.Limit{core.PerSecond(10)}, Observer: core.Silent,
			OnStoreError: core.Fallback(memstore.New(), core.Share(5)),
		})
		store.fail(errDown)
		time.AfterFunc(time.Minute, func() { store.fail(nil) })
		start := time.Now()
		d, err := l.WaitN(ctx, "k", 5)
		if took := time.Since(start); err != nil || !d.Allowed || took < time.Minute || took > 66*time.Second {
			t.Errorf("%+v, %v after %v", d, err, took)
		}
		if asks, _ := store.numbers(); asks > 40 {
			t.Errorf("%d asks", asks)
		}
	})
}

// TestWaitCancelled: a waiter whose context ends leaves at once, and the next has its turn at
// the time that is known, whether the first sleeps or asks.
func TestWaitCancelled(t *testing.T) {
	for _, trip := range []time.Duration{0, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := newAsked(trip)
			l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(1)}, Timeout: time.Second})
			l.Allow(ctx, "k")
			start := time.Now()
			first, cancel := context.WithCancel(ctx)
			var group sync.WaitGroup
			group.Go(func() {
				d, err := l.Wait(first, "k")
				took := time.Since(start)
				if err != context.Canceled || d.Err != err || d.Allowed || took > 10*time.Millisecond+trip {
					t.Errorf("%+v, %v after %v", d, err, took)
				}
			})
			synctest.Wait()
			group.Go(func() {
				d, err := l.Wait(ctx, "k")
				took := time.Since(start)
				if err != nil || !d.Allowed || took < time.Minute-2*trip || took > time.Minute+2*trip+maxJitter {
					t.Errorf("%+v, %v after %v", d, err, took)
				}
			})
			time.Sleep(10 * time.Millisecond)
			cancel()
			group.Wait()
			if asks, _ := store.numbers(); asks > 4 {
				t.Errorf("%d asks", asks)
			}
			if n := l.Waiting(); n != 0 {
				t.Errorf("%d keys are kept", n)
			}
		})
	}
}

const maxJitter = 100 * time.Millisecond

// TestWaitCounted: an admission that comes back when the context has just ended is returned.
func TestWaitCounted(t *testing.T) {
	leaving, cancel := context.WithCancel(ctx)
	store := &fake{answer: func(context.Context) (core.Decision, error) {
		cancel()
		return core.Decision{Allowed: true, Remaining: 1}, nil
	}}
	l := limiter(t, core.Config{Store: store})
	if d, err := l.Wait(leaving, "k"); err != nil || !d.Allowed {
		t.Errorf("%+v, %v, want the admission", d, err)
	}
}

// TestWaitReset: a reset wakes the waiters.
func TestWaitReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}})
		l.Allow(ctx, "k")
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			if err := l.Reset(ctx, "k"); err != nil {
				t.Error(err)
			}
		})
		if d, err := l.Wait(ctx, "k"); err != nil || !d.Allowed || time.Since(start) != time.Second {
			t.Errorf("%+v, %v after %v", d, err, time.Since(start))
		}
	})
}

// TestWaitPanic: a waiter whose observer panics hands its turn on.
func TestWaitPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := 0
		l := limiter(t, core.Config{Store: newAsked(time.Second), Observer: core.ObserverFunc(
			func(context.Context, core.Event) {
				if heard++; heard == 1 {
					panic("observer")
				}
			})})
		var group sync.WaitGroup
		group.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			l.Wait(ctx, "k")
		})
		synctest.Wait()
		group.Go(func() {
			if d, err := l.Wait(ctx, "k"); err != nil || !d.Allowed {
				t.Errorf("%+v, %v", d, err)
			}
		})
		group.Wait()
		if heard != 2 || l.Waiting() != 0 {
			t.Errorf("%d events, %d keys", heard, l.Waiting())
		}
	})
}

// TestWaitStorm: waiters of any cost that come and go at random, with a store that fails now
// and then, leave nothing behind, no window holds too much, and none is forgotten.
func TestWaitStorm(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 16))
			store := newAsked(time.Duration(rng.IntN(3)) * time.Millisecond)
			limits := []core.Limit{core.Per(10, 50*time.Millisecond), core.PerSecond(60)}
			l := limiter(t, core.Config{
				Store: store, Limits: limits, OnStoreError: core.FailClosed, Observer: core.Silent,
			})
			var group sync.WaitGroup
			for range 400 {
				cost, comes, goes := 1+rng.Int64N(4), rng.IntN(4000), rng.IntN(6000)
				kind := rng.IntN(3)
				group.Go(func() {
					time.Sleep(time.Duration(comes) * time.Millisecond)
					ctx := ctx
					switch kind {
					case 0:
						var cancel context.CancelFunc
						ctx, cancel = context.WithCancel(ctx)
						time.AfterFunc(time.Duration(goes)*time.Millisecond, cancel)
					case 1:
						ctx = within(time.Duration(goes) * time.Millisecond)
					}
					d, err := l.WaitN(ctx, "k", cost)
					if d.Allowed != (err == nil) || kind == 2 && err != nil || kind == 0 && err != nil && ctx.Err() == nil {
						t.Errorf("%+v, %v", d, err)
					}
				})
			}
			for range 5 {
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
				store.fail(errDown)
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
				store.fail(nil)
			}
			group.Wait()
			if n := l.Waiting(); n != 0 {
				t.Errorf("%d keys are kept", n)
			}
			if err := storetest.CheckLogs(store.outcomes, limits...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitParallel is a storm by the real clock, for the race detector.
func TestWaitParallel(t *testing.T) {
	store := newAsked(0)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.Per(50, 5*time.Millisecond)}})
	var group sync.WaitGroup
	for i := range 300 {
		group.Go(func() {
			for round := range 5 {
				ctx, cancel := context.WithCancel(ctx)
				if (i+round)%3 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i%20)*time.Millisecond)
				} else if (i+round)%3 == 1 {
					time.AfterFunc(time.Duration(i%20)*time.Millisecond, cancel)
				}
				d, err := l.WaitN(ctx, fmt.Sprint(i%2), int64(1+i%3))
				if d.Allowed != (err == nil) {
					t.Errorf("%+v, %v", d, err)
				}
				cancel()
			}
		})
	}
	group.Wait()
	if n := l.Waiting(); n != 0 {
		t.Errorf("%d keys are kept", n)
	}
}

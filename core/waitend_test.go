package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// TestWaitTooLate: a wait that the deadline would cut off ends at once, with the store's
// refusal if it has asked, and one that can end in time does not.
func TestWaitTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, core.Config{Name: "x", Store: newRecorder(0), Limits: []core.Limit{core.PerMinute(1)}})
		l.Allow(ctx, "k")
		start := time.Now()
		d, err := l.Wait(within(time.Minute), "k") // the context ends when the unit comes back
		if !isAll(err, core.ErrTooLate, context.DeadlineExceeded) || errors.Is(err, core.ErrStore) {
			t.Errorf("got %v, want ErrTooLate", err)
		}
		if d.Allowed || d.RetryAfter != time.Minute || d.Source != core.SourceCounted || d.Err != nil {
			t.Errorf("got %+v, want the store's refusal", d)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("got %v, want no sleep", took)
		}
		d, err = l.Wait(within(time.Minute+1), "k")
		if took := time.Since(start); err != nil || !d.Allowed || took != time.Minute {
			t.Errorf("got %+v, %v after %v, want an admission after a minute", d, err, took)
		}
	})
}

// TestWaitTooLateInLine: a waiter behind others hears at its turn that it is too late, or
// when it comes if the first sleeps for too long; the store is not asked for it.
func TestWaitTooLateInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(0)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerSecond(10)}})
		start := time.Now()
		var admitted, late atomic.Int64
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				d, err := l.Wait(within(2500*time.Millisecond), "k")
				over := time.Since(start) - 2*time.Second
				if err == nil {
					admitted.Add(1)
				} else if late.Add(1); !errors.Is(err, core.ErrTooLate) || d.Err != err || over < 0 ||
					over > 2*maxJitter || d.RetryAfter > time.Second || d.Source != core.SourceNone {
					t.Errorf("got %+v, %v %v after 2s, want ErrTooLate then", d, err, over)
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		if d, err := l.Wait(within(time.Millisecond), "k"); !errors.Is(err, core.ErrTooLate) ||
			time.Since(start) != 1500*time.Millisecond {
			t.Errorf("got %+v, %v after %v, want ErrTooLate at once", d, err, time.Since(start))
		}
		group.Wait()
		if asks := store.asks.Load(); admitted.Load() != 30 || late.Load() != 20 || asks > 36 {
			t.Errorf("%d admitted and %d too late by %d asks, want 30, 20 and 30", admitted.Load(), late.Load(), asks)
		}
	})
	synctest.Test(t, func(t *testing.T) { // there is room for the one that comes while another asks
		l := limiter(t, core.Config{Store: newRecorder(20 * time.Millisecond), Limits: []core.Limit{core.PerMinute(3)}})
		var group sync.WaitGroup
		for i := range 3 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * 12 * time.Millisecond)
				if d, err := l.Wait(within(time.Second), "k"); err != nil || !d.Allowed {
					t.Errorf("number %d: got %+v, %v, want an admission", i, d, err)
				}
			})
		}
		group.Wait()
	})
}

// TestWaitNever: what exceeds a limit is not waited for, nor asked.
func TestWaitNever(t *testing.T) {
	store := newRecorder(0)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(5), core.PerHour(50)}})
	d, err := l.WaitN(ctx, "k", 6)
	if !errors.Is(err, core.ErrNever) || errors.Is(err, core.ErrStore) || !errors.Is(d.Err, err) ||
		d.RetryAfter != core.Never || d.Limit.Requests != 5 {
		t.Errorf("got %+v, %v, want ErrNever", d, err)
	}
	for _, want := range []string{"sash: ", "a cost of 6", "the limit 5/1m"} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("got %v, want %q once", err, want)
		}
	}
	if asks := store.asks.Load(); asks != 0 {
		t.Errorf("got %d asks, want 0", asks)
	}
}

// TestWaitFallback: a cost above the share of a fallback is an error of the store too, and
// the next has its turn. It passes when the store is back.
func TestWaitFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(20 * time.Millisecond)
		l := limiter(t, core.Config{
			Store: store, Limits: []core.Limit{core.PerSecond(10)}, Observer: core.Silent,
			OnStoreError: core.Fallback(memstore.New(), 5),
		})
		store.down.Store(true)
		start := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			d, err := l.WaitN(ctx, "k", 5)
			if !isAll(err, core.ErrNever, core.ErrStore, errDown) || d.Allowed {
				t.Errorf("got %+v, %v, want ErrNever and ErrStore", d, err)
			}
		})
		synctest.Wait()
		d, err := l.Wait(ctx, "k")
		if took := time.Since(start); err != nil || d.Source != core.SourceFallback || took != 40*time.Millisecond {
			t.Errorf("got %+v, %v after %v, want an admission after 40ms", d, err, took)
		}
		group.Wait()
		store.down.Store(false)
		if d, err := l.WaitN(ctx, "k", 5); err != nil || d.Source != core.SourceCounted {
			t.Errorf("got %+v, %v, want the store's admission", d, err)
		}
	})
}

// TestWaitClosed: while the store fails under a closed policy, one waiter asks now and then,
// and all go on when the store is back. A deadline before the next try ends the wait at once.
func TestWaitClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(0)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerSecond(10)},
			OnStoreError: core.FailClosed, Observer: core.Silent})
		store.down.Store(true)
		var group sync.WaitGroup
		group.Go(func() { work(t, 50, 1, 0, 1, l) })
		time.Sleep(time.Second)
		if asks := store.asks.Load(); asks < 4 || asks > 6 {
			t.Errorf("got %d tries in a second, want 4 to 6", asks)
		}
		time.Sleep(time.Hour)
		if asks := store.asks.Load(); asks < 3600/5 || asks > 2*3600/5+6 {
			t.Errorf("got %d tries in an hour, want one in 2.5 to 5 seconds", asks)
		}
		start := time.Now()
		d, err := l.Wait(within(time.Millisecond), "k")
		if !isAll(err, core.ErrTooLate, core.ErrStore, errDown) || d.Allowed || time.Since(start) != 0 {
			t.Errorf("got %+v, %v after %v, want ErrTooLate and ErrStore at once", d, err, time.Since(start))
		}
		store.down.Store(false)
		group.Wait()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the last was admitted %v after the outage, want at most 10s", took)
		}
	})
}

// TestWaitPace: while the store fails under an open policy, the waiters of a key go on at the
// pace of the slowest limit, be they many or one that comes again. No reset shortens it. When
// the store is back, it counts again.
func TestWaitPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(0)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerSecond(20), core.PerMinute(600)},
			Observer: core.Silent})
		store.down.Store(true)
		paces := func(t *testing.T, what string, want time.Duration, wait func()) {
			t.Helper()
			start := time.Now()
			wait()
			if took := time.Since(start); took != want {
				t.Errorf("%s: got %v, want %v", what, took, want)
			}
		}
		paces(t, "40 workers", 3900*time.Millisecond, func() { work(t, 40, 1, 0, 1, l) })
		paces(t, "another key", 0, func() { l.Wait(ctx, "other") })
		paces(t, "a worker that comes again", 2*time.Second, func() { work(t, 1, 20, 0, 1, l) })
		paces(t, "costs 5 and 0", 600*time.Millisecond, func() {
			l.WaitN(ctx, "k", 5)
			l.Reset(ctx, "k")
			d, err := l.WaitN(within(500*time.Millisecond), "k", 0)
			if !isAll(err, core.ErrTooLate, core.ErrStore) || d.RetryAfter != 500*time.Millisecond {
				t.Errorf("got %+v, %v, want ErrTooLate and ErrStore", d, err)
			}
			l.WaitN(ctx, "k", 0)
		})
		l.Wait(ctx, "k")
		store.down.Store(false)
		paces(t, "after the outage", 100*time.Millisecond, func() {
			for range 20 {
				if d, err := l.Wait(ctx, "k"); err != nil || d.Source != core.SourceCounted {
					t.Errorf("got %+v, %v, want the store's admission", d, err)
				}
			}
		})
	})
}

// TestWaitPaceForgotten: a key whose pace is over is forgotten, and of idle keys at most
// 10,000 are kept.
func TestWaitPaceForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, core.Config{Store: storetest.Fixed(core.Decision{Err: errDown}),
			Limits: []core.Limit{core.PerMinute(1)}, Observer: core.Silent})
		work(t, 1, 3, 0, 1, l)
		for i := range 12_000 {
			l.Wait(ctx, strconv.Itoa(i))
		}
		if n := l.Waiting(); n != 10_000 {
			t.Errorf("got %d keys that are kept, want 10000", n)
		}
		time.Sleep(30 * time.Second)
		leaving, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		if _, err := l.Wait(leaving, "0"); err != context.Canceled {
			t.Errorf("got %v, want that the context has ended", err)
		}
		time.Sleep(30 * time.Second)
		if n := l.Waiting(); n != 0 {
			t.Errorf("got %d keys that are kept after their pace, want 0", n)
		}
	})
}

// TestWaitCancelled: a waiter whose context ends leaves at once, and the next has its turn at
// the time that is known, whether the first sleeps or asks.
func TestWaitCancelled(t *testing.T) {
	for _, trip := range []time.Duration{0, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := newRecorder(trip)
			l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(1)}, Timeout: time.Second})
			l.Allow(ctx, "k")
			start := time.Now()
			first, cancel := context.WithCancel(ctx)
			var group sync.WaitGroup
			group.Go(func() {
				d, err := l.Wait(first, "k")
				took := time.Since(start)
				if err != context.Canceled || d.Err != err || d.Allowed || took > 10*time.Millisecond+trip {
					t.Errorf("got %+v, %v after %v, want that the context has ended", d, err, took)
				}
			})
			synctest.Wait()
			group.Go(func() {
				d, err := l.Wait(ctx, "k")
				took := time.Since(start)
				if err != nil || !d.Allowed || took < time.Minute-2*trip || took > time.Minute+2*trip+maxJitter {
					t.Errorf("got %+v, %v after %v, want an admission after a minute", d, err, took)
				}
			})
			time.Sleep(10 * time.Millisecond)
			cancel()
			group.Wait()
			if asks := store.asks.Load(); asks > 4 {
				t.Errorf("got %d asks, want at most 4", asks)
			}
			if n := l.Waiting(); n != 0 {
				t.Errorf("got %d keys that are kept, want 0", n)
			}
		})
	}
}

const maxJitter = 100 * time.Millisecond

// TestWaitReopened: a reset and a return wake the first waiter, also while the store's
// refusal is on its way.
func TestWaitReopened(t *testing.T) {
	for what, reopen := range map[string]func(*core.Limiter, *core.Reservation) error{
		"Reset":  func(l *core.Limiter, _ *core.Reservation) error { return l.Reset(ctx, "k") },
		"Return": func(_ *core.Limiter, r *core.Reservation) error { _, err := r.Return(ctx, 1); return err },
		"Settle": func(_ *core.Limiter, r *core.Reservation) error { return r.Settle(ctx, 0) },
	} {
		for after, want := range map[time.Duration]time.Duration{
			time.Minute:           time.Minute + 20*time.Millisecond,
			15 * time.Millisecond: 40 * time.Millisecond,
		} {
			synctest.Test(t, func(t *testing.T) {
				store := newRecorder(20 * time.Millisecond)
				l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1)}})
				r := l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
				start := time.Now()
				time.AfterFunc(after, func() {
					if err := reopen(l, r); err != nil {
						t.Error(err)
					}
				})
				if d, err := l.Wait(ctx, "k"); err != nil || !d.Allowed || time.Since(start) != want {
					t.Errorf("%s after %v: got %+v, %v after %v, want an admission after %v",
						what, after, d, err, time.Since(start), want)
				}
			})
		}
	}
}

// TestWaitPanic: a waiter whose observer panics hands its turn on.
func TestWaitPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		l := limiter(t, core.Config{Observer: core.ObserverFunc(func(context.Context, core.Event) {
			if panics {
				panic("observer")
			}
		})})
		func() {
			defer func() {
				if panics = false; recover() == nil {
					t.Error("got no panic, want that of the observer")
				}
			}()
			l.Wait(ctx, "k")
		}()
		if d, err := l.Wait(ctx, "k"); err != nil || !d.Allowed || l.Waiting() != 0 {
			t.Errorf("got %+v, %v and %d keys that are kept, want an admission, and none", d, err, l.Waiting())
		}
	})
}

// TestWaitStorm: waiters of any cost that come and go at random, many of them at the same
// time, with a store that fails now and then, leave nothing behind, no window holds too
// much, and none is forgotten.
func TestWaitStorm(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 16))
			store := newRecorder(time.Duration(rng.IntN(3)) * time.Millisecond)
			limits := []core.Limit{core.Per(10, 50*time.Millisecond), core.PerSecond(60)}
			l := limiter(t, core.Config{Store: store, Limits: limits, OnStoreError: core.FailClosed,
				Observer: core.Silent})
			var group sync.WaitGroup
			for range 400 {
				cost, comes, goes, kind := rng.Int64N(5), rng.IntN(80), rng.IntN(120), rng.IntN(3)
				group.Go(func() {
					time.Sleep(time.Duration(comes) * 50 * time.Millisecond)
					ctx, stays := ctx, time.Duration(goes)*50*time.Millisecond
					switch kind {
					case 0:
						var cancel context.CancelFunc
						ctx, cancel = context.WithCancel(ctx)
						time.AfterFunc(stays, cancel)
					case 1:
						ctx = within(stays)
					}
					d, err := l.WaitN(ctx, "k", cost)
					failed := err != nil
					if d.Allowed == failed || failed && (kind == 2 || kind == 0 && ctx.Err() == nil) {
						t.Errorf("seed %d: got %+v, %v", seed, d, err)
					}
				})
			}
			for range 5 {
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
				store.down.Store(true)
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
				store.down.Store(false)
			}
			group.Wait()
			if n := l.Waiting(); n != 0 {
				t.Errorf("seed %d: got %d keys that are kept, want 0", seed, n)
			}
			if err := storetest.CheckLogs(store.outcomes, limits...); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

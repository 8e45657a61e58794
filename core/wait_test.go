package core_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// asked is a store in memory, with the bubble's clock, that writes down what it is asked.
// An answer takes two halves of trip.
type asked struct {
	store core.Store
	trip  time.Duration

	mu       sync.Mutex
	outcomes []storetest.Outcome
	failures int
	err      error // instead of answers
}

func newAsked(trip time.Duration) *asked { return &asked{store: memstore.New(), trip: trip} }

func (a *asked) Bind(rule core.Rule) (core.Counts, error) {
	counts, err := a.store.Bind(rule)
	return askedCounts{counts, a}, err
}

func (a *asked) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// numbers returns how many requests were asked and admitted.
func (a *asked) numbers() (asks, admitted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.outcomes {
		if o.Allowed {
			admitted++
		}
	}
	return len(a.outcomes) + a.failures, admitted
}

type askedCounts struct {
	core.Counts
	*asked
}

func (c askedCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	time.Sleep(c.trip / 2)
	defer time.Sleep(c.trip / 2)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.err; err != nil {
		c.failures++
		return core.Decision{}, err
	}
	d, err := c.Counts.Take(ctx, ask)
	c.outcomes = append(c.outcomes, storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: ask.Cost})
	return d, err
}

// waited is what a caller of Wait has seen.
type waited struct {
	worker int
	took   time.Duration
	at     time.Time
	err    error
}

// work has so many workers wait, each as often as rounds says, and returns their waits.
// They begin one after the other, a stagger apart, and share out the limiters.
func work(workers, rounds int, stagger time.Duration, limiters ...*core.Limiter) []waited {
	var mu sync.Mutex
	var all []waited
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			time.Sleep(time.Duration(i) * stagger)
			for range rounds {
				start := time.Now()
				_, err := limiters[i%len(limiters)].Wait(ctx, "k")
				now := time.Now()
				mu.Lock()
				all = append(all, waited{i, now.Sub(start), now, err})
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all
}

// TestWaitAsks: 50 workers on 10 a second ask at most 1.2 times as often as they are
// admitted, whether each comes once or again and again, all at once or spread out, and
// are admitted as often as the limit allows.
func TestWaitAsks(t *testing.T) {
	for _, algorithm := range core.Algorithms() {
		for _, trip := range []time.Duration{0, 300 * time.Microsecond, 20 * time.Millisecond} {
			for _, rounds := range []int{1, 20} {
				for _, stagger := range []time.Duration{0, 17 * time.Millisecond, 93 * time.Millisecond} {
					if rounds == 1 && stagger > 20*time.Millisecond {
						continue // they come about as fast as they may pass, and few wait
					}
					t.Run(fmt.Sprint(algorithm, trip, rounds, stagger), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							waitAsks(t, core.PerSecond(10).Using(algorithm), trip, rounds, stagger)
						})
					})
				}
			}
		}
	}
}

// waitAsks is one case of TestWaitAsks.
func waitAsks(t *testing.T, limit core.Limit, trip time.Duration, rounds int, stagger time.Duration) {
	store := newAsked(trip)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{limit}})
	start := time.Now()
	for _, w := range work(50, rounds, stagger, l) {
		if w.err != nil {
			t.Fatal(w.err)
		}
	}
	took := time.Since(start)
	asks, admitted := store.numbers()
	t.Logf("%d asks, %d admitted in %v", asks, admitted, took)
	if admitted != 50*rounds || asks*10 > admitted*12 {
		t.Errorf("%d asks for %d admissions, want at most 1.2 for each", asks, admitted)
	}
	if most := time.Duration(admitted) * 115 * time.Millisecond; took > most {
		t.Errorf("%v, want at most %v", took, most)
	}
	if limit.Algorithm == core.SlidingLog {
		if err := storetest.CheckLogs(store.outcomes, limit); err != nil {
			t.Error(err)
		}
	}
	if n := l.Waiting(); n != 0 {
		t.Errorf("%d keys are kept", n)
	}
}

// TestWaitProcesses: the waiters of two processes, which know nothing of each other, ask at
// most 1.2 times as often as they are admitted, and take turns.
func TestWaitProcesses(t *testing.T) {
	for _, trip := range []time.Duration{300 * time.Microsecond, 2 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := newAsked(trip)
			limit := core.PerSecond(10)
			config := core.Config{Store: store, Limits: []core.Limit{limit}}
			start := time.Now()
			all := work(50, 20, 0, limiter(t, config), limiter(t, config))
			asks, admitted := store.numbers()
			t.Logf("%d asks, %d admitted in %v", asks, admitted, time.Since(start))
			if asks*10 > admitted*12 {
				t.Errorf("%d asks for %d admissions, want at most 1.2 for each", asks, admitted)
			}
			for _, w := range all {
				if w.took > 10*time.Second { // twice the mean
					t.Errorf("worker %d waited %v until %v", w.worker, w.took, w.at.Sub(start))
				}
			}
			if err := storetest.CheckLogs(store.outcomes, limit); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitFair: the waiters of a key are served in the order in which they came, and of 50
// workers that come again and again, none waits twice as long as another.
func TestWaitFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, core.Config{Store: memstore.New(), Limits: []core.Limit{core.Per(1, time.Second)}})
		l.Allow(ctx, "k")
		var order []int
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range 30 {
			group.Go(func() {
				l.Wait(ctx, "k")
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		group.Wait()
		if !slices.IsSorted(order) || len(order) != 30 {
			t.Errorf("%v, want them as they came", order)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := newAsked(time.Millisecond)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerSecond(10)}})
		all := work(50, 20, 0, l)
		slices.SortFunc(all, func(a, b waited) int { return a.at.Compare(b.at) })
		all = all[50:] // all 50 wait
		shortest, longest := all[0].took, all[0].took
		for _, w := range all {
			shortest, longest = min(shortest, w.took), max(longest, w.took)
		}
		t.Logf("shortest %v, longest %v", shortest, longest)
		if longest >= 2*shortest {
			t.Errorf("the longest wait is %v, the shortest %v", longest, shortest)
		}
	})
}

// TestWaitLarge: a large cost does not starve behind small ones, and those behind it wait
// their turn.
func TestWaitLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsked(time.Millisecond)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerSecond(10)}})
		var group sync.WaitGroup
		var order []int
		var mu sync.Mutex
		for i := range 60 {
			group.Go(func() {
				cost := int64(1)
				if i%20 == 19 {
					cost = 10
				}
				if d, err := l.WaitN(ctx, "k", cost); err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			time.Sleep(time.Microsecond)
		}
		group.Wait()
		for place, i := range order {
			if i%20 == 19 && place != i {
				t.Errorf("the large cost that came as number %d was number %d: %v", i, place, order)
			}
		}
		if err := storetest.CheckLogs(store.outcomes, core.PerSecond(10)); err != nil {
			t.Error(err)
		}
		if asks, admitted := store.numbers(); asks*10 > admitted*12 {
			t.Errorf("%d asks for %d admissions", asks, admitted)
		}
	})
}

// TestWaitJitter: a waiter comes back no sooner than RetryAfter and little later, each
// process at another time; with a deadline in between, in time.
func TestWaitJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := map[time.Duration]bool{}
		for i := range 20 {
			l := limiter(t, core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}})
			l.Allow(ctx, "k")
			start, ctx := time.Now(), ctx
			if i == 0 {
				ctx = within(time.Minute + 1)
			}
			_, err := l.Wait(ctx, "k")
			took := time.Since(start)
			if err != nil || took < time.Minute || took > time.Minute+maxJitter {
				t.Errorf("%v after %v", err, took)
			}
			times[took] = true
		}
		if len(times) < 15 {
			t.Errorf("20 waits end after %d different times", len(times))
		}
	})
}

// BenchmarkWait compares a Wait that need not sleep with Allow.
func BenchmarkWait(b *testing.B) {
	l := limiter(b, core.Config{
		Store: memstore.New(), Limits: []core.Limit{core.PerSecond(core.MaxCounterRequests).Using(core.SlidingCounter)},
	})
	b.Run("Allow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Allow(ctx, "k")
		}
	})
	b.Run("Wait", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Wait(ctx, "k"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package core_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
)

// work has so many workers wait, each as often as rounds says. They begin one after the
// other, a stagger apart, and share out the limiters.
func work(t *testing.T, workers, rounds int, stagger time.Duration, cost int64, limiters ...*core.Limiter) {
	t.Helper()
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			time.Sleep(time.Duration(i) * stagger)
			for range rounds {
				if d, err := limiters[i%len(limiters)].WaitN(ctx, "k", cost); err != nil || !d.Allowed {
					t.Errorf("got %+v, %v, want an admission", d, err)
				}
			}
		})
	}
	group.Wait()
}

// TestWaitAsks: 50 workers ask once for each admission, by a counter twice, whether each comes once or again
// and again, all at once or spread out, and are admitted as often as the limits allow.
func TestWaitAsks(t *testing.T) {
	second, minute := core.PerSecond(10), core.PerMinute(300)
	for _, algorithm := range core.Algorithms() {
		for _, c := range []struct {
			limits []core.Limit
			cost   int64
			each   time.Duration // the most for an admission, on average
		}{
			{[]core.Limit{second}, 1, 115 * time.Millisecond},
			{[]core.Limit{second}, 3, 375 * time.Millisecond}, // 9 units fit
			{[]core.Limit{second, minute}, 1, 220 * time.Millisecond},
			{[]core.Limit{core.PerMinute(7)}, 2, 21 * time.Second}, // 6 units fit
		} {
			for i := range c.limits {
				c.limits[i] = c.limits[i].Using(algorithm).Named(fmt.Sprint(i))
			}
			for i := range 8 {
				trip, apart := time.Duration(i%2)*20*time.Millisecond, time.Duration(i/2%2)*17*time.Millisecond
				rounds := 1 + i/4*19
				t.Run(fmt.Sprint(c.limits, c.cost, trip, apart, rounds), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { waitAsks(t, c.limits, c.cost, c.each, trip, apart, rounds) })
				})
			}
		}
	}
}

// waitAsks is one case of TestWaitAsks.
func waitAsks(t *testing.T, limits []core.Limit, cost int64, each, trip, stagger time.Duration, rounds int) {
	store := newRecorder(trip)
	l := limiter(t, core.Config{Store: store, Limits: slices.Clone(limits)})
	start := time.Now()
	work(t, 50, rounds, stagger, cost, l)
	took := time.Since(start)
	asks, admitted, most := store.asks.Load(), 0, 1.05
	for _, o := range store.outcomes {
		if o.Allowed {
			admitted++
		}
	}
	if limits[0].Algorithm == core.SlidingCounter {
		most = 2
	}
	if want := 50 * rounds; admitted != want || float64(asks) > most*float64(want) {
		t.Errorf("got %d admissions and %d asks, want %d and at most %v for each", admitted, asks, want, most)
	}
	if longest := time.Duration(admitted) * each; took > longest {
		t.Errorf("got %v, want at most %v", took, longest)
	}
	if limits[0].Algorithm == core.SlidingLog {
		if err := storetest.CheckLogs(store.outcomes, limits...); err != nil {
			t.Error(err)
		}
	}
	if n := l.Waiting(); n != 0 {
		t.Errorf("got %d keys that are kept, want 0", n)
	}
}

// TestWaitOrder: the waiters of a key are admitted in the order of their coming, whatever
// they cost, nothing too: a large cost does not starve behind small ones, nor they behind it.
func TestWaitOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(20 * time.Millisecond)
		limit := core.PerMinute(5)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{limit}})
		l.AllowN(ctx, "k", 5)
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for i := range 24 {
			group.Go(func() {
				if d, err := l.WaitN(ctx, "k", int64(i%6)); err != nil || !d.Allowed {
					t.Errorf("number %d: got %+v, %v, want an admission", i, d, err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			time.Sleep(time.Millisecond) // some come while the first asks
		}
		group.Wait()
		if !slices.IsSorted(order) || len(order) != 24 {
			t.Errorf("got the order %v, want that of their coming", order)
		}
		if err := storetest.CheckLogs(store.outcomes, limit); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitJitter: a waiter comes back no sooner than RetryAfter and little later, each
// process at another time.
func TestWaitJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := map[time.Duration]bool{}
		for range 20 {
			l := limiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}})
			l.Allow(ctx, "k")
			start := time.Now()
			_, err := l.Wait(ctx, "k")
			took := time.Since(start)
			if err != nil || took < time.Minute || took > time.Minute+maxJitter {
				t.Errorf("got %v after %v, want an admission after a minute or little more", err, took)
			}
			times[took] = true
		}
		if len(times) < 15 {
			t.Errorf("got %d different times of 20 waits, want 15", len(times))
		}
	})
}

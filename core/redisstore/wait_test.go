package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// waiting is 50 workers that wait for one key: how often they asked and were admitted, and
// how long they waited from the second turn on, when all of them are in a queue.
type waiting struct {
	outcomes       []storetest.Outcome
	asks, admitted int
	waits          []time.Duration
}

// waitOn has 50 workers wait, 4 times each, and shares them out among so many stores with
// a client of their own.
func waitOn(t *testing.T, addr string, stores int, limit core.Limit) (w waiting) {
	t.Helper()
	var mu sync.Mutex
	observer := core.ObserverFunc(func(_ context.Context, e core.Event) {
		mu.Lock()
		defer mu.Unlock()
		w.asks++
		if e.Decision.Allowed {
			w.admitted++
		}
		if e.Decision.Source == core.Counted {
			w.outcomes = append(w.outcomes, storetest.Outcome{At: e.Decision.At, Allowed: e.Decision.Allowed, Cost: e.Cost})
		}
	})
	var group sync.WaitGroup
	for i := range stores {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { rdb.Close() })
		l := limiter(t, core.Config{
			Name: fmt.Sprint(stores), Store: redisstore.New(rdb), Limits: []core.Limit{limit}, Timeout: patient,
			OnStoreError: core.FailClosed, Observer: observer,
		})
		for range 50 / stores {
			group.Go(func() {
				for round := range 4 {
					start := time.Now()
					_, err := l.Wait(ctx, "k")
					took := time.Since(start)
					mu.Lock()
					if err != nil {
						t.Errorf("store %d: %v", i, err)
					}
					if round > 0 {
						w.waits = append(w.waits, took)
					}
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	return w
}

// TestWait: 50 workers on a real server, of one store and of two, ask little more often than
// they are admitted, and no window holds too much. In a herd, all of a store would ask each time.
func TestWait(t *testing.T) {
	limit := core.Per(10, 200*time.Millisecond)
	for stores, most := range map[int]float64{1: 1.2, 2: 3} {
		t.Run(fmt.Sprint(stores), func(t *testing.T) {
			t.Parallel()
			w := waitOn(t, redistest.Start(t).Addr(), stores, limit)
			asks := float64(w.asks) / float64(w.admitted)
			t.Logf("%d admitted, %.2f asks each; the shortest wait %v, the longest %v",
				w.admitted, asks, slices.Min(w.waits), slices.Max(w.waits))
			if w.admitted != 200 || asks > most {
				t.Errorf("%d admitted, %.2f asks each: want 200, and at most %v", w.admitted, asks, most)
			}
			if err := storetest.CheckLogs(w.outcomes, limit); err != nil {
				t.Error(err)
			}
		})
	}
}

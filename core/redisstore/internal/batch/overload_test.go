//go:build !race && !short

package batch

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// offer makes calls at a rate per second for some seconds, and returns how many were answered after the first second.
func offer(q *testQueue, seconds, rate int, timeout time.Duration) int64 {
	start := time.Now()
	var group sync.WaitGroup
	var answered atomic.Int64
	for i := range seconds * rate {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		group.Go(func() {
			if _, err := ask(q, 1, timeout); err == nil && i >= rate {
				answered.Add(1)
			}
		})
	}
	group.Wait()
	return answered.Load()
}

// TestOverload: of more calls than the server can answer, as many are in time as if there were no others. If not the
// server but the way to it takes long, enough batches are under way.
func TestOverload(t *testing.T) {
	const ms, timeout = time.Millisecond, 100 * time.Millisecond
	for name, test := range map[string]struct {
		way, batch time.Duration // that a batch takes, and for which it keeps all other batches waiting
		offered    int           // calls per second
		least      int64         // answers in the last second: of a slow server nearly all that it can give
		most       int           // batches under way at a time
	}{
		"a slow server": {0, 10 * ms, 6400, 3100, 10},
		"far too many":  {0, 10 * ms, 16_000, 3100, 10},
		"slower still":  {0, 20 * ms, 10_000, 1600, 6},
		"slowest":       {0, 30 * ms, 10_000, 1050, 5},
		"a long way":    {15 * ms, 0, 20_000, 20_000, 16},
		"a longer way":  {40 * ms, 0, 10_000, 10_000, 16},
		"too long":      {60 * ms, 0, 10_000, 1600, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := make(chan bool, 1)
				waiting, most := 0, 0
				var q *testQueue
				q = New(byCallers(timeout, func(batch []*testCall) bool {
					q.mu.Lock()
					waiting, most = max(waiting, len(q.waiting)), max(most, len(q.inFlight))
					q.mu.Unlock()
					server <- true
					time.Sleep(test.batch)
					<-server
					time.Sleep(test.way)
					return echo(batch)
				}))
				n := offer(q, 2, test.offered, timeout)
				checkEmpty(t, q)
				if n < test.least {
					t.Errorf("%d of %d calls were answered, want at least %d", n, test.offered, test.least)
				}
				if most > test.most {
					t.Errorf("%d batches were under way, want at most %d", most, test.most)
				}
				if want := test.offered * int(timeout/ms) * 11 / 10_000; waiting > want {
					t.Errorf("up to %d calls waited, want at most %d: those that are in time", waiting, want)
				}
				t.Logf("%d of %d calls, up to %d batches", n, test.offered, most)
			})
		})
	}
}

// TestSlotsGoWhileTheCrowdWaits: when batches come to take long while a backlog waits, there soon are as few slots as
// before: the workers that are too many do not go on.
func TestSlotsGoWhileTheCrowdWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *testQueue
		served, most := 0, 0
		q = New(byWorkers(func(batch []*testCall) bool {
			q.mu.Lock()
			if served++; served >= 2*maxSlots {
				most = max(most, len(q.inFlight))
			}
			q.mu.Unlock()
			time.Sleep(slowReply)
			return echo(batch)
		}))
		q.slots.total = maxSlots
		serveEach(t, q, 3*maxSlots*MaxBatch)
		if most > minSlots {
			t.Errorf("%d batches were under way, want at most %d", most, minSlots)
		}
		checkEmpty(t, q)
	})
}

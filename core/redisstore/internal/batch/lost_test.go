package batch

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestShorterRoundTrip: once replies come faster, a batch is presumed lost by the new round trip, also if no other
// batch is sent after that.
func TestShorterRoundTrip(t *testing.T) {
	const slow, fast = 10 * time.Second, slowReply
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(func(batch []*testCall) bool {
			time.Sleep(time.Duration(batch[0].Request))
			return echo(batch)
		}))
		q.slots.total = minSlots + 1 // as after a backlog; the slot is gone with the batch that takes slowReply
		if elapsed, err := ask(q, int64(slow), time.Minute); err != nil || elapsed != slow {
			t.Errorf("%v after %v", err, elapsed)
		}
		var group sync.WaitGroup
		for _, takes := range []time.Duration{slow, slow, slow, slow, fast} {
			group.Go(func() { _, _ = ask(q, int64(takes), time.Minute) })
			synctest.Wait()
		}
		if elapsed, err := ask(q, 0, time.Minute); err != nil || elapsed > 2*fast+lostAfter {
			t.Errorf("%v after %v, want an answer after at most %v", err, elapsed, 2*fast+lostAfter)
		}
		group.Wait()
		checkEmpty(t, q)
	})
}

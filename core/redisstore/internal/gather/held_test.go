package gather

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeld: a batch that waits for a connection is not presumed lost, however long that takes, and the calls that come
// meanwhile go together. If it waits for too long they do not wait for it.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *Queue[int64, int64]
		hold := time.Minute
		var batches, newest atomic.Int64 // the size of the newest
		q = New(byWorkers(func(batch []*testCall) bool {
			newest.Store(int64(len(batch)))
			if batches.Add(1) == 1 {
				batch[0].Hold(time.Now().Add(hold))
				time.Sleep(time.Second)
				batch[0].Sent()
				time.Sleep(time.Second)
			}
			return echo(batch)
		}))
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				if _, err := ask(q, int64(i), time.Minute); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Second - 1)
		synctest.Wait()
		if n := batches.Load(); n != 1 {
			t.Errorf("%d batches while the first waits for a connection", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := newest.Load(); batches.Load() != 2 || n != 9 {
			t.Errorf("%d batches, the newest of %d; want one of 9 when the first has been sent", batches.Load(), n)
		}
		group.Wait()

		batches.Store(0)
		hold = 100 * time.Millisecond
		for range 2 {
			group.Go(func() { _, _ = ask(q, 1, time.Minute) })
			synctest.Wait()
		}
		time.Sleep(hold + timerPause)
		synctest.Wait()
		if n := batches.Load(); n != 2 {
			t.Errorf("%d batches after the time for which the first is held, want 2", n)
		}
		group.Wait()
		checkEmpty(t, q)
	})
}

// TestMaxSlots: no more batches are under way than the server has connections.
func TestMaxSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		config := byWorkers(func(batch []*testCall) bool {
			sizes = append(sizes, len(batch))
			time.Sleep(time.Millisecond)
			return echo(batch)
		})
		config.MaxSlots = 1
		q := New(config)
		var group sync.WaitGroup
		for i := range 11 {
			group.Go(func() {
				if _, err := ask(q, int64(i), time.Minute); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		if len(sizes) != 2 || sizes[0] != 1 {
			t.Errorf("batches of %d, want one of 1 and one of 10", sizes)
		}
		checkEmpty(t, q)
	})
}

package batch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRandom: whatever callers and servers do, no caller waits for longer than it said, each hears why it has no
// answer, no call is sent after its deadline or once its caller has left, and the queue is sound at all times.
func TestRandom(t *testing.T) {
	// To two seconds, mostly much less.
	random := func() time.Duration { return rand.N(time.Duration(2) << rand.N(30)) }
	hasTime := func(c *testCall) bool { return c.Deadline.IsZero() || time.Now().Before(c.Deadline) }
	play := func(t *testing.T, inline time.Duration) {
		var sent, left sync.Map // requests, and when their callers left
		q := New(byCallers(inline, func(batch []*testCall) bool {
			for _, c := range batch {
				if sent.Store(c.Request, true); !hasTime(c) {
					t.Errorf("request %d is sent at its deadline", c.Request)
				}
				if at, isLeft := left.Load(c.Request); isLeft && time.Now().After(at.(time.Time)) {
					t.Errorf("request %d is sent after its caller left", c.Request)
				}
			}
			takes := random()
			if batch[0].inline { // as the contract of Serve says
				takes = min(takes, time.Until(batch[0].Deadline))
			}
			time.Sleep(takes)
			return slices.ContainsFunc(batch, hasTime) && echo(batch)
		}))
		call := func(request int64) {
			start, patience := time.Now(), time.Hour
			var deadline time.Time
			if rand.N(4) > 0 {
				patience = random()
				deadline = start.Add(patience)
			}
			ctx, leave := context.Background(), func() {}
			if rand.N(4) == 0 {
				stays := random()
				patience = min(patience, stays)
				ctx, leave = context.WithTimeout(ctx, stays)
			}
			defer leave()
			answer, err := q.Do(ctx, deadline, &request)
			elapsed, late := time.Since(start), !hasTime(&testCall{Deadline: deadline})
			_, isSent := sent.Load(request)
			ok := answer == request // without an error
			if isLeft(err) {
				left.Store(request, time.Now())
				ok = ctx.Err() != nil
			} else if err != nil {
				ok = late && errors.Is(err, errLate) && errors.Is(err, errQueued) != isSent
			}
			if !ok || elapsed > patience+timerPause {
				t.Errorf("request %d, with %v: %d, %v after %v", request, patience, answer, err, elapsed)
			}
		}
		var group sync.WaitGroup
		for range 50 {
			for range rand.N(2 << rand.N(8)) { // a few, or a backlog
				group.Go(func() { call(rand.Int64()) })
			}
			synctest.Wait()
			checkSound(t, q)
			time.Sleep(random())
			synctest.Wait()
			checkSound(t, q)
		}
		group.Wait()
		time.Sleep(2 * time.Second) // until Serve has returned for all
		checkEmpty(t, q)
		if !q.timer.at.IsZero() {
			t.Errorf("the timer fires at %v, want never", q.timer.at)
		}
	}
	for i := range 30 {
		synctest.Test(t, func(t *testing.T) { play(t, time.Hour*time.Duration(i%2)) })
	}
}

// checkSound checks, while nothing of q runs, that the slots are counted right, that calls wait only if all slots are
// taken, and that the timer fires for every deadline and every batch that may be lost.
func checkSound(t *testing.T, q *testQueue) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []time.Time
	used := 0
	calls := slices.Clone(q.waiting)
	for _, b := range q.inFlight {
		calls = append(calls, b.calls...)
		if !b.lost {
			used++
			// If the round trip has just become shorter, the timer finds the batch at its next run.
			due = append(due, time.Now().Add(max(0, time.Until(q.slots.lostAt(b.sentAt)))+lostAfter))
		}
	}
	for _, c := range calls {
		if !c.settled.Load() && !c.Deadline.IsZero() && !c.inline {
			due = append(due, c.Deadline)
		}
	}
	if q.slots.used != used || q.slots.total < busySlots || q.slots.total > maxSlots {
		t.Errorf("%d of %d slots are used, want %d of %d to %d", q.slots.used, q.slots.total, used, busySlots, maxSlots)
	}
	w := &q.workers
	if q.slots.reserved != 0 || len(w.wake) > 0 || w.idle > 0 && q.timer.at.IsZero() {
		t.Errorf("%d workers are idle, %d come, %d are to be woken; the timer fires at %v",
			w.idle, q.slots.reserved, len(w.wake), q.timer.at)
	}
	if len(q.waiting) > 0 && q.slots.used < q.slots.total {
		t.Errorf("%d calls wait, and %d of %d slots are used", len(q.waiting), q.slots.used, q.slots.total)
	}
	for _, at := range due {
		if q.timer.at.IsZero() || q.timer.at.Sub(at) > timerPause || time.Since(at) > timerPause {
			t.Errorf("the timer fires at %v, it is %v, want %v", q.timer.at, time.Now(), at)
		}
	}
}

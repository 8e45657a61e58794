package gather

import (
	"runtime"
	"slices"
	"time"
)

// idleTime is how long a worker waits for calls at least before it ends. Starting a worker takes longer than waking
// one, most of all because its stack has to grow. See TestWorkersEnd.
const idleTime = 100 * time.Millisecond

// idleWorkers has the workers that wait for calls. The queue's lock guards it.
type idleWorkers struct {
	idle     int
	fewest   int       // the smallest idle since retireAt was set: so many were not needed
	wake     chan bool // a value for each worker that is idle no more: whether there are calls for it
	retireAt time.Time // when workers may end next
}

// dispatch has a worker take waiting calls if a slot is free (TestWaitingCallsGoTogether). No more workers come than
// calls wait (TestDeadlines). q.mu must be held.
func (q *Queue[Q, A]) dispatch() {
	if q.slots.coming >= len(q.waiting) || q.slots.taken() {
		return
	}
	q.slots.coming++
	if w := &q.workers; w.idle > 0 {
		w.idle--
		w.fewest = min(w.fewest, w.idle)
		w.wake <- true
	} else {
		go q.work()
	}
}

// work serves batches until the worker is not needed any more.
func (q *Queue[Q, A]) work() {
	b := &batch[Q, A]{calls: make([]*Call[Q, A], 0, MaxBatch)}
	for called := true; called; called = <-q.workers.wake {
		for q.next(b) {
			q.serve(b)
			// Callers in a crowd mostly come again once they are answered: let them, before the next batch is sent
			// (TestAnsweredCallersComeAlong).
			runtime.Gosched()
		}
	}
}

// next ends a worker's batch, if it had one, and begins the next. It returns false if no calls wait, or no slot is
// free: then the worker is idle (TestSlotsGoWhileTheCrowdWaits). For a worker that has no batch a slot is kept: see
// dispatch.
func (q *Queue[Q, A]) next(b *batch[Q, A]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if len(b.calls) > 0 {
		q.end(b, now)
	} else {
		q.slots.coming--
	}
	b.calls = b.calls[:0]
	if !q.slots.taken() {
		q.fill(b, now)
	}
	if len(b.calls) == 0 {
		q.workers.idle++
		q.wakeTimerBy(now.Add(idleTime))
		return false
	}
	q.begin(b, now)
	q.dispatch() // there may be a slot more than before (TestRandom)
	return true
}

// fill moves waiting calls to b. Calls that their callers have left, or that are past their
// deadlines (TestTooLate), are left out, however many they are: the server would serve them in vain.
// q.mu must be held.
//
// The oldest calls come first, unless the oldest is likely to be answered too late: then the newest do, which have the
// most time left. Otherwise, with more calls than the server can serve, every call would be answered just too late
// (TestOverload).
func (q *Queue[Q, A]) fill(b *batch[Q, A], now time.Time) {
	for len(b.calls) == 0 && len(q.waiting) > 0 {
		from, to := 0, min(len(q.waiting), MaxBatch)
		if oldest := q.waiting[0]; oldest.past(now.Add(q.slots.roundTrip)) {
			from, to = len(q.waiting)-to, len(q.waiting)
		}
		for _, c := range q.waiting[from:to] {
			if c.past(now) {
				c.Answer(*new(A), q.config.ErrQueued)
			}
			if !c.settled.Load() {
				b.calls = append(b.calls, c)
			}
		}
		q.waiting = slices.Delete(q.waiting, from, to)
	}
}

// retire ends the workers that have been idle for idleTime. It returns when to look again, or the zero time if no
// worker is idle. The queue's lock must be held.
func (w *idleWorkers) retire(now time.Time) (next time.Time) {
	if !now.Before(w.retireAt) {
		for range w.fewest {
			w.wake <- false
		}
		w.idle -= w.fewest
		w.fewest, w.retireAt = w.idle, now.Add(idleTime)
	}
	if w.idle > 0 {
		next = w.retireAt
	}
	return next
}

package batch

import (
	"runtime"
	"slices"
	"time"
)

// idleTime is the time without work after which workers end. Starting a worker takes longer than waking one, above all
// because its stack has to grow.
const idleTime = 100 * time.Millisecond

// idleWorkers has the workers that wait for calls. The queue's lock guards it.
type idleWorkers struct {
	idle     int
	wake     chan bool // a value for each worker that is no longer idle: whether there are calls for it
	retireAt time.Time // when they end, unless a worker becomes idle before
}

// dispatch has a worker take waiting calls if a slot is free. No more workers come than calls wait. q.mu must be held.
func (q *Queue[Q, A]) dispatch() {
	if q.slots.reserved >= len(q.waiting) || q.slots.full() {
		return
	}
	q.slots.reserved++
	if w := &q.workers; w.idle > 0 {
		w.idle--
		w.wake <- true
	} else {
		go q.work()
	}
}

// work serves batches until the worker is no longer needed.
func (q *Queue[Q, A]) work() {
	b := &batch[Q, A]{calls: make([]*Call[Q, A], 0, MaxBatch)}
	for needed := true; needed; needed = <-q.workers.wake {
		for q.next(b) {
			q.serve(b)
			// Under load most callers come again once they are answered: let them, before the next batch is sent.
			runtime.Gosched()
		}
	}
}

// next ends a worker's batch, if it had one, and starts the next. It returns false if no calls wait or no slot is
// free: then the worker is idle. A worker without a batch has a reserved slot: see dispatch.
func (q *Queue[Q, A]) next(b *batch[Q, A]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if len(b.calls) > 0 {
		q.end(b, now)
	} else {
		q.slots.reserved--
	}
	b.calls = b.calls[:0]
	if !q.slots.full() {
		q.fill(b, now)
	}
	if len(b.calls) == 0 {
		q.workers.idle++
		q.workers.retireAt = now.Add(idleTime)
		q.wakeTimerBy(q.workers.retireAt)
		return false
	}
	q.start(b, now)
	q.dispatch() // there may be a slot more than before
	return true
}

// fill moves waiting calls to b. Calls that are settled or past their deadlines are left out: the server would serve
// them in vain. q.mu must be held.
//
// The oldest calls come first, unless the oldest is likely to be answered too late: then the newest do. Otherwise, with
// more calls than the server can serve, every call would be answered just too late.
func (q *Queue[Q, A]) fill(b *batch[Q, A], now time.Time) {
	for len(b.calls) == 0 && len(q.waiting) > 0 {
		from, to := 0, min(len(q.waiting), MaxBatch)
		if oldest := q.waiting[0]; oldest.expired(now.Add(q.slots.roundTrip)) {
			from, to = len(q.waiting)-to, len(q.waiting)
		}
		for _, c := range q.waiting[from:to] {
			if c.expired(now) {
				c.Answer(*new(A), q.config.ErrQueued)
			}
			if !c.settled.Load() {
				b.calls = append(b.calls, c)
			}
		}
		q.waiting = slices.Delete(q.waiting, from, to)
	}
}

// retire ends the idle workers at retireAt. It returns when to look again, or the zero time. The queue's lock must be
// held.
func (w *idleWorkers) retire(now time.Time) (next time.Time) {
	if w.idle > 0 && now.Before(w.retireAt) {
		return w.retireAt
	}
	for ; w.idle > 0; w.idle-- {
		w.wake <- false
	}
	return time.Time{}
}

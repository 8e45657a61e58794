package core

import (
	"container/list"
	"sync"
	"time"
)

// waitQueues are the callers of Wait that a limiter has, by key. The zero value has none.
type waitQueues struct {
	mu    sync.Mutex            // guards all queues and their waiters
	byKey map[string]*waitQueue // nil until the first Wait; a queue is removed with its last waiter
}

// waitQueue is the waiters of one key. Each is in waiting, or asks the store. Its methods
// are called with the lock of the queues held.
//
// Whatever may let the first waiter ask ends with wakeFirst, and a waiter decides under the
// lock what it does next, so that no wake-up is lost.
type waitQueue struct {
	key     string
	limits  []Limit
	waiting list.List // of *waiter, in the order in which they came
	came    uint64    // how many waiters have come
	costs   int64     // the sum of the costs in waiting
	limited int       // how many waiters in waiting have a deadline
	asking  int       // how many waiters ask the store
	forecast
}

// waiter is one call of Wait.
type waiter struct {
	cost        int64
	ticket      uint64 // its number among the waiters of the key
	deadline    time.Time
	hasDeadline bool
	place       *list.Element // in waiting; nil while it asks or has left
	wake        chan struct{} // holds one element

	// last is the newest decision about the request, the zero Decision at first. If err is
	// not nil, the queue has expelled the waiter, and Wait returns both.
	last Decision
	err  error
}

// maxAsking is how many waiters of a key ask the store at once, at most, while it counts.
// If another process takes the room that an answer spoke of, so many ask in vain.
const maxAsking = 16

// join adds w to the queue of the key. If the deadline of w comes too soon, w is expelled at once.
func (s *waitQueues) join(key string, w *waiter, limits []Limit) *waitQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byKey[key]
	if q == nil {
		if s.byKey == nil {
			s.byKey = map[string]*waitQueue{}
		}
		q = &waitQueue{key: key}
		s.byKey[key] = q
	}
	q.limits = limits // the newest
	q.came++
	w.ticket = q.came
	q.enqueue(w)
	if w.hasDeadline {
		now := time.Now()
		if at := q.earliest(w, q.costs-w.cost, q.begin(now)); !at.Before(w.deadline) {
			q.expel(w, at.Sub(now))
		}
	}
	s.removeIfEmpty(q)
	return q
}

// turn reports whether w is to ask the store now, which counts as begun, or how long it is
// to sleep until it looks again. late is the error of an expelled waiter.
func (s *waitQueues) turn(q *waitQueue, w *waiter) (ask bool, sleep time.Duration, late error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.err != nil || q.waiting.Front() != w.place {
		return false, forever, w.err
	}
	now := time.Now()
	if wait := q.until(w, now); wait > 0 {
		return false, wait, nil
	}
	if q.asking > 0 && !q.hasRoom(w.cost, q.asking) {
		return false, forever, nil
	}
	q.dequeue(w)
	if q.asking++; q.asking == 1 {
		q.startRound()
	}
	q.use(w.cost)
	q.wakeFirst()
	return true, 0, nil
}

// answered ends the request of w. d is nil if there is no answer and w leaves. After a
// refusal w is back in its place, unless its deadline comes too soon.
func (s *waitQueues) answered(q *waitQueue, w *waiter, d *Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.asking--
	now := time.Now()
	if d != nil {
		w.last = *d
		q.learn(d, w.cost, now)
		if !d.Allowed {
			q.enqueue(w)
		}
	}
	if q.asking == 0 {
		q.endRound()
		q.expelLate(now)
	}
	q.wakeFirst()
	s.removeIfEmpty(q)
}

// leave removes w because its context has ended.
func (s *waitQueues) leave(q *waitQueue, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.err != nil {
		return // it has been expelled just now, and q may have been removed
	}
	q.dequeue(w)
	q.wakeFirst()
	s.removeIfEmpty(q)
}

// reopen lets the first waiter of the key ask at once: what is counted for the key has
// been forgotten, or given back.
func (s *waitQueues) reopen(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byKey[key]; q != nil {
		q.forecast = forecast{}
		q.wakeFirst()
	}
}

// reopenAll lets the first waiter of each key ask at once: limits hold from now on.
func (s *waitQueues) reopenAll(limits []Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.byKey {
		q.limits, q.forecast = limits, forecast{}
		q.wakeFirst()
	}
}

// removeIfEmpty removes the queue if it has no waiter. s.mu must be held.
func (s *waitQueues) removeIfEmpty(q *waitQueue) {
	if q.asking == 0 && q.waiting.Len() == 0 {
		delete(s.byKey, q.key)
	}
}

// enqueue puts w into its place, behind the waiters that came before.
func (q *waitQueue) enqueue(w *waiter) {
	q.costs += w.cost
	if w.hasDeadline {
		q.limited++
	}
	if last := q.waiting.Back(); last == nil || last.Value.(*waiter).ticket < w.ticket {
		w.place = q.waiting.PushBack(w)
		return
	}
	after := q.waiting.Front() // only waiters that asked at the same time can be before w
	for after.Value.(*waiter).ticket < w.ticket {
		after = after.Next()
	}
	w.place = q.waiting.InsertBefore(w, after)
}

// dequeue takes w out of waiting.
func (q *waitQueue) dequeue(w *waiter) {
	q.costs -= w.cost
	if w.hasDeadline {
		q.limited--
	}
	q.waiting.Remove(w.place)
	w.place = nil
}

// wakeFirst has the first waiter look whether it may ask.
func (q *waitQueue) wakeFirst() {
	if first := q.waiting.Front(); first != nil {
		first.Value.(*waiter).wakeUp()
	}
}

// wakeUp has w look at its state. If w has been woken already and has not looked, once is enough.
func (w *waiter) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

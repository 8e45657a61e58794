// Package waitqueue lets the callers that wait for one key ask in turn, in the order of their arrival. The
// first asks, sleeps until its request can pass, and asks again; the others sleep until they are first.
package waitqueue

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"
)

// Queues holds the waiting callers of all keys. The zero value is ready to use. It is safe for concurrent use.
type Queues struct {
	mu    sync.Mutex // guards all queues
	byKey map[string]*queue
}

// queue holds the callers that wait for one key. The first alone asks.
type queue struct {
	key         string
	waiters     list.List // of *waiter
	wakePending bool      // Wake was called after the first started to ask
	state
}

// waiter is one call of Wait.
type waiter struct {
	cost    int64
	element *list.Element
	wake    chan struct{} // holds one element
}

// maxIdle is the number of keys beyond which one without a waiter is forgotten even if its state is fixed.
const maxIdle = 10_000

// forever is the sleep of a waiter behind the first, which is woken by Wake or leave.
const forever time.Duration = math.MaxInt64

// TooLate is the error of a wait that the deadline of its context would cut off.
type TooLate struct {
	Next time.Duration // the time until the next request can pass
	Err  error         // the Err of the latest Estimate
}

// Error returns a text for tests: a caller makes its own.
func (e *TooLate) Error() string { return "too late: the next try is in " + e.Next.String() }

// Wait calls ask whenever a request of the given cost can pass and the caller is the first of the key,
// until ask reports that the wait is over. ask returns an estimate for the requests that follow; nil
// leaves the latest. The error is a *TooLate, or that of ctx if it ends during a sleep.
func (s *Queues) Wait(ctx context.Context, key string, cost int64, ask func() (next *Estimate, done bool)) error {
	q, w := s.join(key, cost)
	defer s.leave(q, w) // also if ask panics
	for {
		sleep, err := s.nextTurn(ctx, q, w)
		switch {
		case err != nil:
			return err
		case sleep > 0:
			if !w.sleep(ctx, sleep) {
				return ctx.Err()
			}
			continue
		}
		next, done := ask()
		if next != nil {
			s.update(q, *next)
		}
		if done {
			return nil
		}
	}
}

// Wake lets the first waiter of the key ask at once, since units may have been returned. A fixed
// state stays.
func (s *Queues) Wake(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byKey[key]; q != nil && !q.Fixed {
		q.state, q.wakePending = state{}, true
		q.wakeFirst()
	}
}

// Len returns the number of keys that have a waiter or a fixed state.
func (s *Queues) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}

// join adds a waiter at the end of the key's queue.
func (s *Queues) join(key string, cost int64) (*queue, *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[string]*queue{}
	}
	q := s.byKey[key]
	if q == nil {
		q = &queue{key: key}
		s.byKey[key] = q
	}
	w := &waiter{cost: cost, wake: make(chan struct{}, 1)}
	w.element = q.waiters.PushBack(w)
	return q, w
}

// nextTurn returns the time that w sleeps before its next turn; 0 if it asks now. The error is not nil if the
// deadline of ctx comes before the first waiter can ask.
func (s *Queues) nextTurn(ctx context.Context, q *queue, w *waiter) (sleep time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, first := time.Now(), q.waiters.Front().Value.(*waiter)
	deadline, limited := ctx.Deadline()
	next := q.next(first.cost)
	sleep = max(0, next.Sub(now))
	if limited && sleep > 0 && !next.Before(deadline) {
		return sleep, &TooLate{Next: sleep, Err: q.Err}
	}
	if next = next.Add(q.jitter); !limited || next.Before(deadline) {
		sleep = max(sleep, next.Sub(now))
	}
	if first != w {
		return forever, nil
	}
	if sleep == 0 {
		q.wakePending = false
	}
	return sleep, nil
}

// update sets the state of the queue by the latest estimate. After a Wake the next asks at once.
func (s *Queues) update(q *queue, e Estimate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.wakePending && !e.Fixed {
		q.state = state{}
		return
	}
	q.state = newState(e, q.failures)
	if e.Fixed {
		time.AfterFunc(e.After, func() { s.remove(q) })
	}
}

// leave removes w, and wakes the next waiter.
func (s *Queues) leave(q *queue, w *waiter) {
	s.mu.Lock()
	q.waiters.Remove(w.element)
	q.wakeFirst()
	s.mu.Unlock()
	s.remove(q)
}

// remove removes the queue if it has neither a waiter nor a fixed state that holds. A timer removes the latter.
func (s *Queues) remove(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := q.Fixed && time.Until(q.next(0)) > 0 && len(s.byKey) <= maxIdle
	if q.waiters.Len() == 0 && s.byKey[q.key] == q && !keep {
		delete(s.byKey, q.key)
	}
}

// wakeFirst wakes the first waiter. A waiter that has not seen an earlier wake is woken once.
func (q *queue) wakeFirst() {
	if first := q.waiters.Front(); first != nil {
		select {
		case first.Value.(*waiter).wake <- struct{}{}:
		default:
		}
	}
}

// sleep returns true when w is woken or d is over, and false when ctx ends.
func (w *waiter) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.wake:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

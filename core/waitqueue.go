package core

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// waitQueues are the callers of Wait that a limiter has, by key.
type waitQueues struct {
	mu    sync.Mutex // guards all queues
	byKey map[string]*waitQueue
}

// waitQueue holds the waiters of one key in the order of their coming. The first has the
// turn: it alone asks the store, and sleeps in between.
type waitQueue struct {
	key      string
	waiting  list.List // of *waiter
	reopened bool      // since the first began to ask
	kept     bool      // a timer forgets the queue when its pace is over
	counter  reckoning // by the answers so far
	outlook
}

// outlook holds what the newest answer says of the requests to come.
type outlook struct {
	opens   time.Time     // until then a cost of at least closed cannot pass; zero if that follows from the counter
	closed  int64         // 0: no cost can pass
	apart   float64       // in nanoseconds: each unit of a cost above closed passes so much later
	jitter  time.Duration // this process asks so much later than it could
	paced   bool          // the policy has admitted: opens is the limits' pace, which no Return shortens
	failing error         // the store's error; nil if the newest answer is the store's
	tries   int           // failed tries in a row
}

// waiter is one call of Wait.
type waiter struct {
	cost  int64
	place *list.Element
	wake  chan struct{} // holds one element: the waiter is to look at its queue
}

const (
	// A waiter comes back later than it must by up to a part of the wait, so that the
	// processes that wait for one key do not ask at the same instant.
	jitterPart = 50
	maxJitter  = 100 * time.Millisecond

	// The time between two tries while the store cannot be asked: at first, and at most.
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Second

	// While there are more keys, the pace of one for which no caller waits is forgotten.
	maxPaced = 10_000
)

// join adds a waiter to the queue of the key, as the last.
func (s *waitQueues) join(key string, cost int64) (*waitQueue, *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byKey[key]
	if q == nil {
		q = &waitQueue{key: key}
		s.byKey[key] = q
	}
	w := &waiter{cost: cost, wake: make(chan struct{}, 1)}
	w.place = q.waiting.PushBack(w)
	return q, w
}

// turn returns for how long w is to sleep until it looks again; if that is 0, w is to ask
// the store. late is not nil if the deadline of w comes before that time.
func (s *waitQueues) turn(ctx context.Context, q *waitQueue, w *waiter) (sleep time.Duration, late error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := q.waiting.Front().Value.(*waiter)
	if first.cost >= q.closed {
		now := time.Now()
		deadline, limited := ctx.Deadline()
		opens := q.opensFor(first.cost)
		sleep = max(0, opens.Sub(now))
		if limited && sleep > 0 && !opens.Before(deadline) {
			return sleep, chained(ErrTooLate, fmt.Errorf("the next try is in %v", sleep), q.failing)
		}
		if later := q.later(first.cost); !limited || later.Before(deadline) {
			sleep = max(sleep, later.Sub(now))
		}
	}
	if first != w {
		return forever, nil
	}
	if sleep == 0 {
		q.reopened = false
	}
	return sleep, nil
}

// later returns when a request of the given cost is to be asked, if there is time.
func (q *waitQueue) later(cost int64) time.Time {
	if q.opens.IsZero() && q.closed > 0 {
		return q.counter.opens(cost)
	}
	return q.opensFor(cost).Add(q.jitter)
}

// opensFor returns until when a cost of at least closed cannot pass.
func (o *outlook) opensFor(cost int64) time.Time {
	return o.opens.Add(time.Duration(math.Ceil(o.apart * float64(cost-o.closed))))
}

// answered notes the answer to a request of the first waiter. pace is for how long the
// key is held after an admission that no store has counted.
func (s *waitQueues) answered(q *waitQueue, d *Decision, cost int64, pace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, tries := time.Now(), q.tries
	q.outlook = outlook{}
	even := d.Limit.Algorithm.Even()
	counter := !even && !d.Limit.Algorithm.Steady()
	if counter && !q.reopened {
		q.counter.learn(d, cost, now)
	}
	switch {
	case d.Allowed && d.Source == SourcePolicy:
		q.opens, q.paced, q.failing = now.Add(pace), true, d.Err
	case q.reopened || d.RetryAfter == Never: // the next asks at once
	case d.Allowed && counter:
		q.closed = d.Remaining + 1
	case d.Allowed && even: // with all units back but these, the whole limit passes
		q.close(now, d.ResetAfter, d.Limit.Requests)
		q.spread(&d.Limit, d.Remaining+1)
	case d.Allowed:
		q.close(now, d.ResetAfter, d.Remaining+1)
	case d.RetryAfter > 0:
		q.close(now, d.RetryAfter, cost)
		if even {
			q.spread(&d.Limit, cost)
		}
	default:
		wait := min(minRetry<<min(tries, 10), maxRetry)
		q.outlook = outlook{opens: now.Add(wait/2 + rand.N(wait/2+1)), failing: d.Err, tries: tries + 1}
	}
}

// close notes that a cost of at least closed cannot pass before the given time is over.
func (o *outlook) close(now time.Time, wait time.Duration, closed int64) {
	o.opens, o.closed = now.Add(wait), closed
	o.jitter = rand.N(min(max(0, wait/jitterPart), maxJitter) + 1)
}

// spread notes that units come back one after the other: a cost of closed passes sooner than what was closed so far.
func (o *outlook) spread(l *Limit, closed int64) {
	o.apart = float64(l.Window) / float64(l.Requests)
	less := math.Floor(o.apart * float64(o.closed-closed))
	o.opens, o.closed = o.opens.Add(-time.Duration(less)), closed
	o.jitter = min(o.jitter, time.Duration(o.apart)/jitterPart)
}

// leave removes w, and gives the turn to the next.
func (s *waitQueues) leave(q *waitQueue, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.waiting.Remove(w.place)
	q.wakeFirst()
	s.forget(q)
}

// reopen lets the first waiter of the key ask at once: what is counted for the key has
// been forgotten, or given back.
func (s *waitQueues) reopen(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byKey[key]; q != nil && !q.paced {
		q.outlook, q.counter, q.reopened = outlook{}, reckoning{}, true
		q.wakeFirst()
	}
}

// forget removes the queue if it has no waiter and keeps no pace. s.mu must be held.
func (s *waitQueues) forget(q *waitQueue) {
	if q.waiting.Len() > 0 || s.byKey[q.key] != q {
		return
	}
	left := time.Until(q.opens)
	if !q.paced || left <= 0 || !q.kept && len(s.byKey) > maxPaced {
		delete(s.byKey, q.key)
		return
	}
	if !q.kept {
		q.kept = true
		time.AfterFunc(left, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			q.kept = false
			s.forget(q)
		})
	}
}

// wakeFirst has the first waiter look whether it may ask. If it has been woken already and
// has not looked, once is enough.
func (q *waitQueue) wakeFirst() {
	if first := q.waiting.Front(); first != nil {
		select {
		case first.Value.(*waiter).wake <- struct{}{}:
		default:
		}
	}
}

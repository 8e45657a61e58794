package core

import (
	"math"
	"time"
)

// expelLate expels the waiters that cannot pass before their deadlines.
func (q *waitQueue) expelLate(now time.Time) {
	if q.limited == 0 {
		return
	}
	ahead := int64(0)
	for e := q.waiting.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next() // before w is taken out
		if at := q.earliest(w, ahead, q.begin(now)); w.hasDeadline && !at.Before(w.deadline) {
			q.expel(w, at.Sub(now))
			continue
		}
		ahead += w.cost
	}
}

// expel removes w, which could pass after the given time at the earliest, with an error.
func (q *waitQueue) expel(w *waiter, after time.Duration) {
	q.dequeue(w)
	words := "that takes " + after.String() + " at least"
	if q.failing != nil {
		words = "the next try is in " + after.String()
	}
	w.err = &waitError{ErrTooLate, words, q.failing}
	if w.last == (Decision{}) {
		w.last = Decision{RetryAfter: after, Err: w.err}
	}
	w.wakeUp()
}

// begin returns the earliest time at which the first waiter can pass.
func (q *waitQueue) begin(now time.Time) time.Time {
	first := q.waiting.Front()
	if first != nil && first.Value.(*waiter).cost >= q.closed && q.opens.After(now) {
		return q.opens
	}
	return now
}

// earliest returns the earliest time at which w can pass if the first waiter can at begin,
// and the waiters between begin and w have the costs ahead. From begin on, no window
// holds more than the burst of the limit's algorithm.
func (q *waitQueue) earliest(w *waiter, ahead int64, begin time.Time) time.Time {
	var longest time.Duration
	for _, l := range q.limits {
		most := l.Requests * l.Algorithm.properties().burst
		windows := min((ahead+w.cost-1)/most, math.MaxInt64/int64(l.Window))
		longest = max(longest, time.Duration(windows)*l.Window)
	}
	return begin.Add(longest)
}

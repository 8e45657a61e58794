package core

import (
	"context"
	"fmt"
	"time"
)

// Wait sleeps until a request of cost 1 by the client named key is admitted. The error is nil iff the
// Decision's Allowed is true.
//
// The callers of one limiter and key take turns in the order of their coming, whatever their costs.
// The first asks, sleeps for RetryAfter and up to 100 ms longer, and asks again. Of several processes
// that wait, the store decides which goes first. A [Limiter.Reset], a [Reservation.Return] or a Settle
// by this limiter wakes the first. By a SlidingCounter the first may ask 2*Window/Requests too late
// where other processes count for the key. The observer hears of each request to the store.
//
// Wait returns [ErrTooLate] as soon as the first cannot ask again before the context's deadline;
// [ErrNever] at once; [ErrInvalid]; and the context's error when that ends: a store may have counted
// the request.
//
// While the store cannot be asked, [FailOpen] admits at the pace of the limits, in this process: the
// next waits for n*Window/Requests after a cost of n, the longest of all limits; 10,000 idle keys are
// remembered. Under [FailClosed], and where a [Fallback] fails too, the first tries again after 50 to
// 100 ms, and then after twice as long each time up to 5 s. ErrTooLate is an [ErrStore] then.
func (l *Limiter) Wait(ctx context.Context, key string) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN is [Limiter.Wait] for a cost of n units, all or nothing; 0 takes its turn. While a [Fallback]
// decides, a cost above its share is an [ErrNever].
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) (Decision, error) {
	r := Request{Key: key, Cost: n}
	if r.check(ctx, l) != nil {
		d := l.Decide(ctx, r) // the observer hears of it
		return d, d.Err
	}
	var pace time.Duration // the time in which the limits admit n units on average
	for _, limit := range l.limits {
		if n > limit.Requests {
			d := Decision{Limit: limit, RetryAfter: Never}
			d.Err = d.never(n)
			return d, d.Err
		}
		pace = max(pace, time.Duration(float64(n)/float64(limit.Requests)*float64(limit.Window)))
	}
	q, w := l.waiting.join(key, n)
	defer l.waiting.leave(q, w) // also if the observer panics (TestWaitPanic)
	var d Decision
	for {
		sleep, late := l.waiting.turn(ctx, q, w)
		switch {
		case late != nil && d == (Decision{}):
			return Decision{RetryAfter: sleep, Err: late}, late
		case late != nil:
			return d, late
		case sleep > 0:
			if !w.sleep(ctx, sleep) {
				return Decision{Err: ctx.Err()}, ctx.Err()
			}
			continue
		}
		d = l.Decide(ctx, r)
		if d.Source == SourceUnasked && d.Err != nil { // the context has ended
			return d, d.Err
		}
		l.waiting.answered(q, &d, n, pace)
		switch {
		case d.Allowed:
			return d, nil
		case d.RetryAfter == Never:
			return d, d.never(n)
		}
	}
}

// never returns the error of a request of cost n that is refused for ever.
func (d *Decision) never(n int64) error {
	return chained(ErrNever, fmt.Errorf("a cost of %d exceeds the limit %v", n, d.Limit), d.Err)
}

// forever is the sleep of a waiter that another one wakes.
const forever = Never

// sleep returns true when w is woken or d is over, and false when ctx has ended.
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

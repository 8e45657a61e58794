package core

import (
	"context"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core/internal/waitqueue"
)

// Wait sleeps until a request of cost 1 by the client named key is admitted. The error is nil if and only
// if the Decision's Allowed is true.
//
// The callers of one limiter and key take turns in the order of their arrival, of any cost. The first asks
// the store, sleeps for RetryAfter and up to 100 ms longer, and asks again. Among several processes the
// order is up to the store. A [Limiter.Reset], a [Reservation.Return] or a Settle
// by this limiter wakes the first. By a SlidingCounter a Wait asks up to twice for an admission, or more
// often where other processes count for the key. The observer gets each request to the store.
//
// Wait returns [ErrTooLate] as soon as the first cannot ask again before the context's deadline;
// [ErrNever] at once; [ErrInvalid]; or the context's error when that ends: a store may have counted
// the request.
//
// While the store fails, [FailOpen] admits at the pace of the limits, in this process: the
// next waits for n*Window/Requests after a cost of n, the longest of all limits; 10,000 idle keys are
// kept. Under [FailClosed], and where a [Fallback] fails too, the first tries again after 50 to
// 100 ms, and then after twice as long each time up to 5 s. ErrTooLate is an [ErrStore] then.
func (l *Limiter) Wait(ctx context.Context, key string) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN is [Limiter.Wait] for a cost of n units, all or nothing; 0 takes its turn. While a [Fallback]
// decides, a cost above its share is an [ErrNever].
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) (Decision, error) {
	r := Request{Key: key, Cost: n}
	if r.check(ctx, l.limits, l) != nil {
		d := l.Decide(ctx, r) // for the observer
		return d, d.Err
	}
	var pace time.Duration // the time in which the limits admit n units on average
	for _, limit := range l.limits {
		if n > limit.Requests {
			d := Decision{Limit: limit, RetryAfter: Never}
			d.Err = d.neverError(n)
			return d, d.Err
		}
		pace = max(pace, time.Duration(float64(n)/float64(limit.Requests)*float64(limit.Window)))
	}
	var d Decision
	err := l.waiting.Wait(ctx, key, n, func() (*waitqueue.Estimate, bool) {
		d = l.Decide(ctx, r)
		next := d.estimate(n, pace)
		return next, next == nil || d.Allowed || d.RetryAfter == Never
	})
	late, isLate := err.(*waitqueue.TooLate)
	switch {
	case isLate:
		err = withCause(fmt.Errorf("%w: the next try is in %v", ErrTooLate, late.Next), late.Err)
		if d == (Decision{}) {
			d = Decision{RetryAfter: late.Next, Err: err}
		}
		return d, err
	case err != nil: // of the context
		return Decision{Err: err}, err
	case d.Allowed:
		return d, nil
	case d.RetryAfter == Never:
		return d, d.neverError(n)
	}
	return d, d.Err
}

// estimate returns when the next request can pass after the decision on one of the given cost. pace is
// the time for which the key waits after an admission by the policy. It is nil if the context has ended.
func (d *Decision) estimate(cost int64, pace time.Duration) *waitqueue.Estimate {
	switch {
	case d.Source == SourceNone && d.Err != nil:
		return nil
	case d.Allowed && d.Source == SourcePolicy:
		return &waitqueue.Estimate{After: pace, Fixed: true, Err: d.Err}
	case d.RetryAfter == Never:
		return &waitqueue.Estimate{}
	case d.RetryAfter > 0:
		return &waitqueue.Estimate{After: d.RetryAfter, Cost: cost}
	case !d.Allowed:
		return &waitqueue.Estimate{Failed: true, Err: d.Err}
	}
	switch l := &d.Limit; l.Algorithm.properties().refill {
	case refillByUnit: // none of the units comes back before ResetAfter
		return &waitqueue.Estimate{After: d.ResetAfter, Cost: d.Remaining + 1}
	case refillLinear: // all are back after ResetAfter
		perUnit := float64(l.Window) / float64(l.Requests)
		return &waitqueue.Estimate{After: d.ResetAfter, Cost: l.Requests, PerUnit: perUnit}
	}
	return &waitqueue.Estimate{}
}

// neverError returns the error of a request whose cost n exceeds the limit.
func (d *Decision) neverError(n int64) error {
	return withCause(fmt.Errorf("%w: a cost of %d exceeds the limit %v", ErrNever, n, d.Limit), d.Err)
}

package core

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Reservation is a decision that can be taken back. It is safe for concurrent use; the Decision must not be changed.
type Reservation struct {
	Decision Decision

	limiter *Limiter
	request Request

	mu         sync.Mutex
	refundable int64 // units that can be returned

	settled bool
}

// Reserve decides a request like [Limiter.Decide], so that its units can be returned later: to
// count only requests that fail, or an estimate that [Reservation.Settle] corrects. A request counts
// from its decision on. Units that are not returned stay counted; a Reservation need not be closed.
func (l *Limiter) Reserve(ctx context.Context, r Request) *Reservation {
	d := l.Decide(ctx, r)
	r.SilentRefusal = false // the observer gets the charge of Settle
	return newReservation(l, r, d)
}

// newReservation returns a reservation for a request that l has decided.
func newReservation(l *Limiter, r Request, d Decision) *Reservation {
	res := &Reservation{Decision: d, limiter: l, request: r}
	if res.isCounted() {
		res.refundable = r.Cost
		res.request.Limits = nil
		if r.Limits != nil && r.checkLimits(l.limits, l) == nil { // else those of the rule were counted
			res.request.Limits = slices.Clone(r.Limits) // Return and Settle need them later
		}
	}
	return res
}

// isCounted reports whether a store has counted the request.
func (r *Reservation) isCounted() bool {
	return r.Decision.Allowed && !r.request.Peek && r.Decision.Source != SourcePolicy
}

// Return returns n units to all limits of the rule, at once: they are free for the next request. Its result
// is the number of units that count no more. It is less than n where nothing was counted, where units
// were returned before, and where a store cannot find them any more, so that they stay counted:
//
//   - more than 1,000 later requests of the client stand behind the request in a [SlidingLog],
//   - the store has evicted the client, or a lease has ended from which the unit came,
//   - the client was reset, or the store has lost it, and it was counted again. Newer units are taken
//     back then, as many, in the same fixed window of a [SlidingCounter], the same slot of a
//     [CoarseLog], the same microsecond, or at all in a [Bucket].
//
// From a Bucket units come back by themselves, and are not returned a second time: nothing is
// once a request is as old as cost*Window/Requests and another was counted since, and before that less
// than the units, by the time that may have paid for them. They count no more all the same.
//
// The units go back to the store that has counted them. A ctx that has ended does not stop a Return:
// Config.Timeout bounds it. Its error matches [ErrInvalid] if n is negative, or [ErrStore]: then the
// units may be back or not.
func (r *Reservation) Return(ctx context.Context, n int64) (int64, error) {
	if n < 0 {
		return 0, fmt.Errorf("%w: a Return of %d units: give 0 or more", ErrInvalid, n)
	}
	units, left, _ := r.claim(n, false)
	return r.refund(ctx, units, left)
}

// claim takes up to n of the units that can be returned, for one caller. left is the number of them before, and
// pending whether Settle was not called before; settle marks it as called.
func (r *Reservation) claim(n int64, settle bool) (units, left int64, pending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending = !r.settled
	left = r.refundable
	units = min(n, left)
	r.refundable -= units
	r.settled = r.settled || settle
	return units, left, pending
}

// refund returns n of the left units, both from claim, to the store that has counted them.
func (r *Reservation) refund(ctx context.Context, n, left int64) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	l, d, store, limits := r.limiter, &r.Decision, &r.limiter.boundRule, r.request.Limits
	if d.Source == SourceFallback {
		store, limits = &l.fallback.boundRule, l.fallback.shares(limits)
	}
	ctx = context.WithoutCancel(ctx)
	if store.mayWait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.config.Timeout, ErrTimeout)
		defer cancel()
	}
	key := r.request.Key
	units, err := store.ledger.Return(ctx, Refund{
		Key: key, Cost: left, At: d.At, Source: d.Source, Region: d.Region, Units: n, Limits: limits,
	})
	l.waiting.Wake(key)
	if err != nil {
		return 0, asStoreError(err)
	}
	return units, nil
}

// Settle sets the cost of the request to its actual cost: it returns the rest, as Return does, or
// charges the excess, as [Limiter.Charge] does, up to [MaxCounterRequests]. A request that no store has
// counted is charged nothing. Settle works once, also if ctx has ended. Its error matches [ErrStore]:
// the earlier cost may stay counted; or [ErrInvalid]: a negative cost, or a second call.
func (r *Reservation) Settle(ctx context.Context, actual int64) error {
	if actual < 0 {
		return fmt.Errorf("%w: a cost of %d: give 0 or more", ErrInvalid, actual)
	}
	_, left, unsettled := r.claim(r.request.Cost, true)
	switch excess := actual - left; {
	case !unsettled:
		return fmt.Errorf("%w: the request is settled already: call Settle once", ErrInvalid)
	case !r.isCounted():
		return nil
	case excess <= 0:
		_, err := r.refund(ctx, -excess, left)
		return err
	default:
		charge := r.request
		charge.Cost, charge.Charge = min(excess, MaxCounterRequests), true
		return r.limiter.Decide(context.WithoutCancel(ctx), charge).Err
	}
}

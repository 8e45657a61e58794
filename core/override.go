package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/sashlimit/sash/internal/errs"
)

// Charge counts n units of the client named key, even beyond the limits: for what has been used
// already, such as the tokens or bytes of an answer. Later requests wait until the windows have
// room again, and are told exactly how long. n is at most [MaxCounterRequests].
//
// The Decision is an admission, with the numbers after the charge. While the store cannot be
// asked, nothing is counted, and the policy decides what Allowed says; a [Fallback] counts.
func (l *Limiter) Charge(ctx context.Context, key string, n int64) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: n, Charge: true})
}

// checkSpecial returns an error if the request is malformed as a charge or in its limits,
// and fills in the names of the limits.
func (r *Request) checkSpecial(l *Limiter) error {
	switch {
	case r.Charge && r.Peek:
		return fmt.Errorf("%w: a charge cannot be a peek: give one of Charge and Peek", ErrInvalid)
	case r.Charge && r.Cost > MaxCounterRequests:
		return fmt.Errorf("%w: a charge of %d units: at most %d are allowed",
			ErrInvalid, r.Cost, int64(MaxCounterRequests))
	case r.Limits != nil:
		return r.checkLimits(l)
	}
	return nil
}

// checkLimits checks the limits of the request and fills in their names. The slice is the
// caller's own, and is copied if a name is missing.
func (r *Request) checkLimits(l *Limiter) error {
	if len(r.Limits) != len(l.limits) {
		return fmt.Errorf("%w: Request.Limits has %d limits, and %v has %d: give one for each",
			ErrInvalid, len(r.Limits), l, len(l.limits))
	}
	given := r.Limits
	for i := range given {
		own := &l.limits[i]
		if given[i].Name == "" {
			if &r.Limits[0] == &given[0] { // they are the caller's
				r.Limits = slices.Clone(given)
			}
			r.Limits[i].Name = own.Name
		}
		wanted := *own
		wanted.Requests = given[i].Requests
		if r.Limits[i] != wanted {
			return fmt.Errorf("%w: Request.Limits[%d] is %v: give the limit %v of %v with other Requests, "+
				"or make a limiter for another window with WithLimits", ErrInvalid, i, r.Limits[i], *own, l)
		}
		if err := wanted.check(); err != nil {
			return fmt.Errorf("%w: Request.Limits[%d]: %s", ErrInvalid, i, errs.Text(err))
		}
	}
	return nil
}

package core

import (
	"context"
	"fmt"

	"github.com/sashlimit/sash/internal/errs"
)

// Charge counts n units of the client named key, even beyond the limits: for what has
// been used already, such as the tokens or bytes of an answer. Later requests wait until
// the windows have room again, and are told exactly how long. n is at most
// [MaxCounterRequests].
//
// The Decision is an admission, with the numbers after the charge; Remaining is 0 where
// the client has used more than a limit. While the store cannot be asked, nothing is
// counted, and the policy decides what Allowed says; a [Fallback] counts the units
// itself.
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

// checkLimits checks the limits of the request and fills in their names.
func (r *Request) checkLimits(l *Limiter) error {
	limits, err := l.replacing(r.Limits, "Request.Limits")
	if err != nil {
		return fmt.Errorf("%w: %s", ErrInvalid, errs.Text(err))
	}
	r.Limits = limits
	return nil
}

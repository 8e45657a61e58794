package core

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// Request is the question to [Limiter.Decide]. Unlike Allow, its zero Cost is 0.
type Request struct {
	Key           string // the client; any bytes, not empty
	Cost          int64
	Peek          bool   // answer as if, but count nothing
	Charge        bool   // count Cost even beyond the limits; see [Limiter.Charge]
	Label         string // for the observer; not part of any count
	Shadow        bool   // for the observer: the caller serves the request even if it is refused
	SilentRefusal bool   // the observer gets no refusal: the caller tries again, or calls [Limiter.Report]

	Silent bool // the observer does not get the decision: the caller calls [Limiter.Report]

	// Limits, if not nil, are the limits for this request, such as a client's plan: those of the rule, in order, with
	// other Requests, and of a [Bucket] another Window, on the same counts. An empty Name means that of the rule. The
	// slice must not change meanwhile. Others are an [ErrLimits].
	Limits []Limit

	Err error // why the limits or the cost are unknown: the policy decides; see [ErrLimits]
}

// ask returns the request to a store. Its result is no variable, since a copy would take 5 ns.
func (r *Request) ask(timeout time.Duration) Ask {
	return Ask{Key: r.Key, Cost: r.Cost, Peek: r.Peek, Override: r.override(), Timeout: timeout}
}

// override returns nil unless the request is a charge or has limits of its own.
func (r *Request) override() *Override {
	if r.Charge || r.Limits != nil {
		return &Override{Charge: r.Charge, Limits: r.Limits}
	}
	return nil
}

// check returns an error if the request is malformed, or its context has ended. It fills in the names of
// the request's limits, or Err.
func (r *Request) check(ctx context.Context, limits []Limit, l fmt.Stringer) error {
	switch {
	case len(limits) == 0 && r.Err == nil:
		return fmt.Errorf("%w: %v has no limits: ask one of its rules, which Limiter.Rule makes", ErrInvalid, l)
	case r.Key == "":
		return errEmptyKey
	case r.Cost < 0:
		return errNegativeCost
	case r.Charge || r.Limits != nil:
		if err := r.checkOverride(limits, l); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// checkOverride returns an error if the request is malformed as a charge or in its limits,
// and fills in the names of the limits.
func (r *Request) checkOverride(limits []Limit, l fmt.Stringer) error {
	switch {
	case r.Charge && r.Peek:
		return fmt.Errorf("%w: a charge cannot be a peek: give one of Charge and Peek", ErrInvalid)
	case r.Charge && r.Cost > MaxCounterRequests:
		return fmt.Errorf("%w: a charge of %d units: at most %d are allowed",
			ErrInvalid, r.Cost, int64(MaxCounterRequests))
	case r.Limits != nil:
		if err := r.checkLimits(limits, l); err != nil {
			r.Limits, r.Err = nil, err
		}
	}
	return nil
}

// completeFrom returns the limit with the name of own if it has none, and its window rounded.
func (l Limit) completeFrom(own *Limit) Limit {
	if l.Name == "" {
		l.Name = own.Name
	}
	return l.roundWindow()
}

// checkLimits checks the limits of the request, fills in their names and rounds their windows. The
// slice is the caller's own, and is copied if one changes.
func (r *Request) checkLimits(limits []Limit, l fmt.Stringer) error {
	if len(r.Limits) != len(limits) {
		return fmt.Errorf("%w: Request.Limits has %d limits, and %v has %d: give one for each",
			ErrLimits, len(r.Limits), l, len(limits))
	}
	given := r.Limits
	for i := range given {
		own := &limits[i]
		full := given[i].completeFrom(own)
		if full != given[i] {
			if &r.Limits[0] == &given[0] { // they are the caller's
				r.Limits = slices.Clone(given)
			}
			r.Limits[i] = full
		}
		wanted := *own
		wanted.Requests = full.Requests
		if own.Algorithm.IsLinear() {
			wanted.Window = full.Window
		}
		if full != wanted {
			return fmt.Errorf("%w: Request.Limits[%d] is %v: give the limit %v of %v with other Requests, "+
				"or make a limiter for another window with WithLimits", ErrLimits, i, full, *own, l)
		}
		if err := wanted.check(); err != nil {
			return fmt.Errorf("%w: Request.Limits[%d]: %s", ErrLimits, i, errs.Text(err))
		}
	}
	return nil
}

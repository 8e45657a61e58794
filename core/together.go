package core

import (
	"context"
	"fmt"

	"github.com/sashlimit/sash/internal/errs"
)

// Pair is one of the requests that [Together] decides, and the limiter that decides it.
type Pair struct {
	Limiter *Limiter
	Request Request
}

// Together decides several requests of one caller, such as one by the limit of a client
// and one by the limit of all clients: all are counted, or none is. It returns the
// decision that binds and the index of its pair. All are admitted: the decision with the
// least Remaining, then the longest ResetAfter, then the first. Refused: the first
// refusal. The pairs after it are not asked, so they may refuse when its RetryAfter is
// over.
//
// On a single Redis all pairs are decided by one script in one round trip, if they have
// the same Cost and at most 16 limits together; of a refusal the observer of the pair that
// refuses hears, and the others of nothing. Elsewhere
// the pairs are asked one after the other, as by [Limiter.Reserve], and what the pairs
// before a refusal have counted is given back, as by [Reservation.Return]. So no limit is
// ever exceeded. But between the two, which is as long as the pairs in between take to
// answer, others may be refused for units that are given back then. Give the pair that
// refuses most often first, that of the single client: then a client that its own limit
// refuses never touches the limit of all, and a store that remembers refusals answers it
// without a question. Each pair may take its Config.Timeout.
//
// Units that cannot be given back, for the reasons that Reservation.Return names, stay
// counted; of a store that could not be asked the observer hears
// a [NoticeNotGivenBack]. They are
// given back also if ctx ends.
//
// A pair whose store cannot be asked is decided by its policy. If all are admitted,
// the Err of the first such pair is that of the decision: it is nil iff every store has
// counted. Each limiter's observer hears of its own decision, not of what is given back.
// Of no pairs, a pair without a limiter, and a charge, the decision has an Err that
// matches [ErrInvalid], and its index is that of the pair.
func Together(ctx context.Context, pairs ...Pair) (d Decision, binding int) {
	if i, err := checkPairs(pairs); err != nil {
		return Decision{Err: err}, i
	}
	if d, binding, done := jointly(ctx, pairs); done {
		return d, binding
	}
	var all combined
	for i := range pairs {
		r := pairs[i].Limiter.Reserve(ctx, pairs[i].Request)
		if !all.add(r) {
			giveBackAll(ctx, all.reserved)
			return r.Decision, i
		}
	}
	return all.result()
}

// combined is the decision about the pairs so far, which are all admitted.
type combined struct {
	reserved []*Reservation
	d        Decision
	binding  int
	failed   error // of the first pair whose store could not be asked
}

// add adds the next pair, and reports whether it is admitted.
func (c *combined) add(r *Reservation) bool {
	if !r.Decision.Allowed {
		return false
	}
	if c.failed == nil {
		c.failed = r.Decision.Err
	}
	if len(c.reserved) == 0 || r.Decision.binds(&c.d) {
		c.d, c.binding = r.Decision, len(c.reserved)
	}
	c.reserved = append(c.reserved, r)
	return true
}

// result returns the decision that binds, and the index of its pair.
func (c *combined) result() (Decision, int) {
	c.d.Err = c.failed
	return c.d, c.binding
}

// checkPairs returns what is wrong with the pairs before any is asked, and the index.
func checkPairs(pairs []Pair) (int, error) {
	if len(pairs) == 0 {
		return 0, fmt.Errorf("%w: core.Together without pairs: give at least one", ErrInvalid)
	}
	for i := range pairs {
		switch p := &pairs[i]; {
		case p.Limiter == nil || p.Limiter.counts == nil:
			return i, fmt.Errorf("%w: pair %d of core.Together has no limiter: give one of core.New", ErrInvalid, i)
		case p.Request.Charge:
			return i, fmt.Errorf("%w: pair %d of core.Together is a charge, which is never refused: "+
				"use Limiter.Charge", ErrInvalid, i)
		}
	}
	return 0, nil
}

// giveBackAll gives back what was reserved, the latest first.
func giveBackAll(ctx context.Context, reserved []*Reservation) {
	for i := len(reserved) - 1; i >= 0; i-- {
		r := reserved[i]
		if _, err := r.Return(ctx, r.request.Cost); err != nil {
			r.limiter.Notice(ctx, NoticeNotGivenBack, "requests that another limiter refused stay counted, "+
				"since the store could not be asked to give them back: "+errs.Text(err))
		}
	}
}

// binds reports whether the admission d binds rather than other, an earlier one. An
// admission without numbers does not.
func (d *Decision) binds(other *Decision) bool {
	switch {
	case d.Limit.Requests == 0:
		return false
	case other.Limit.Requests == 0:
		return true
	case d.Remaining != other.Remaining:
		return d.Remaining < other.Remaining
	}
	return d.ResetAfter > other.ResetAfter
}

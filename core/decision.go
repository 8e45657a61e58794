package core

import (
	"context"
	"math"
	"time"
)

// Never is the RetryAfter of a request that can never pass because its cost
// exceeds a limit.
const Never time.Duration = math.MaxInt64

// Decision is the answer to one request. It is a plain value; copy it freely.
//
// Whoever acts on a decision looks at Allowed. Err tells why the numbers may
// be missing and is never a reason to refuse on its own: under [FailOpen] a
// request is allowed although the store could not be asked.
type Decision struct {
	// Allowed says whether to serve the request.
	Allowed bool

	// Limit is the limit that binds. Refused: of the limits that refuse, the
	// one with the longest RetryAfter. Allowed: the one with the least
	// Remaining, then the longest ResetAfter. In a tie, the first listed.
	// It is the zero Limit when nothing was counted (see Err).
	Limit Limit

	// Remaining is how many units of Limit are left after this request, never
	// negative. A request may be refused while some remain: its cost may be
	// larger.
	Remaining int64

	// ResetAfter is, for a SlidingLog, the time until the oldest counted
	// request leaves the window and quota starts to come back; for a
	// SlidingCounter, the time until the current fixed window ends. It is 0
	// when nothing is counted.
	ResetAfter time.Duration

	// RetryAfter is 0 when allowed, and else the time after which the same
	// request would pass if nobody else came: exactly, not about. It is
	// [Never] when the cost exceeds a limit.
	RetryAfter time.Duration

	// At is the store's time of the decision, in whole microseconds: for a
	// charged request the time that it is counted at.
	At time.Time

	// Err is nil when the store counted the decision. It matches [ErrStore]
	// when the store could not be asked and the policy decided; [ErrInvalid]
	// when the call was malformed; or the error of the caller's own context
	// when that had ended. The last two are refused whatever the policy.
	Err error
}

// Errors that a [Decision] and [Limiter.Reset] carry, to be compared with
// [errors.Is].
const (
	// ErrStore: the store could not be asked; the policy decided.
	ErrStore constError = "sash: the store could not be asked"

	// ErrStoreFull: the store has no room for another key and may give up
	// none of those that it holds. It is an ErrStore too.
	ErrStoreFull constError = "sash: the store is full"

	// ErrTimeout: the store did not answer within Config.Timeout. It is the
	// cause ([context.Cause]) of the end of the context that a store is given,
	// which tells a slow store from a caller who left. It is a
	// [context.DeadlineExceeded] too.
	ErrTimeout constError = "sash: no answer within the timeout"

	// ErrInvalid: an empty key or a negative cost.
	ErrInvalid constError = "sash: invalid request"
)

// constError makes errors constants, so that nobody can reassign them.
type constError string

func (e constError) Error() string { return string(e) }

// Is says what else an error is.
func (e constError) Is(target error) bool {
	switch e {
	case ErrStoreFull:
		return target == error(ErrStore)
	case ErrTimeout:
		return target == context.DeadlineExceeded
	}
	return false
}

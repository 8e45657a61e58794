package core

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request that can never pass because its cost
// exceeds a limit.
const Never time.Duration = math.MaxInt64

// Decision is the answer to one request. It is a plain value; copy it freely.
//
// A caller that acts on a decision looks at Allowed. Err says why the numbers may
// be missing and is never a reason to refuse on its own: under [FailOpen] a
// request is allowed although the store could not be asked.
type Decision struct {
	// Allowed reports whether the request may be served.
	Allowed bool

	// Source says where the decision comes from: the store's counts, its memory of an
	// earlier answer, a lease, a fallback or the policy.
	Source Source

	// Limit is the limit that binds. Refused: of the limits that refuse, the
	// one with the longest RetryAfter. Allowed: the one with the least
	// Remaining, then the longest ResetAfter. In a tie, the first listed.
	// It is the zero Limit when nothing was counted (see Err).
	Limit Limit

	// Remaining is the number of units of Limit that are left after this request, never
	// negative. A request may be refused while some remain: its cost may be
	// larger.
	Remaining int64

	// ResetAfter is, for a SlidingLog, the time until the oldest counted
	// request leaves the window and quota starts to come back; for a
	// SlidingCounter, the time until the current fixed window ends. It is 0
	// when nothing counts, and what a counter's window before holds may weigh
	// less than one unit.
	ResetAfter time.Duration

	// RetryAfter is 0 when allowed, and else the time after which the same
	// request would pass if no other of the client came: exactly, not about. It
	// is [Never] when the cost exceeds a limit. A store that several processes
	// share may refuse by an answer that is up to a second old: RetryAfter then
	// does not know what other processes have given back, charged or reset since,
	// nor, for a cost above 1, what they have admitted.
	RetryAfter time.Duration

	// At is the store's time of the decision, in whole microseconds: for a
	// charged request the time that it is counted at.
	At time.Time

	// Err is nil iff the store decided: it has answered this request, or by an
	// earlier answer it was certain to, and has counted what it admitted. Err
	// matches [ErrStore] when the store could not be asked and the policy decided,
	// a refusal by a [Fallback] included; [ErrInvalid] when the call was malformed;
	// or it is the error of the caller's own context when that had ended. The last
	// two are refused whatever the policy.
	Err error
}

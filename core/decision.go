package core

import "time"

// Decision is the answer to one request: a plain value, to be copied freely. A caller acts on
// Allowed. Err is never a reason to refuse: under [FailOpen] a request is allowed although
// the store could not be asked.
type Decision struct {
	Allowed bool   // whether the request may be served
	Source  Source // where the decision comes from
	Region  string // which region has decided, where the store is one of package regions

	// Limit is the limit that binds: of those that refuse, the one with the longest RetryAfter; else the one with the
	// least Remaining, then the longest ResetAfter, then the first. It is zero when nothing was counted.
	Limit Limit

	// Remaining is the number of units of Limit that are left after this request: 0 or more, since a refused one may
	// cost more than remains.
	Remaining int64

	// ResetAfter is the time until, for a SlidingLog, the oldest counted request leaves the window and quota starts to
	// come back; for a CoarseLog, the oldest slot does; for a SlidingCounter, the current fixed window ends; for a
	// Bucket, it is full. It is 0 when nothing counts, or less than one unit of a counter.
	ResetAfter time.Duration

	// RetryAfter is 0 when allowed, else the time after which the same request would pass if no other of the client
	// came: exactly. It is [Never] when the cost exceeds a limit. A store that processes share may refuse by an answer
	// of the last second, unless by limits of a Request: RetryAfter then does not know of later returns, charges and
	// resets by others, nor of their requests under other limits on the same counts.
	RetryAfter time.Duration

	At time.Time // the store's, in whole microseconds: the time that a charged request is counted at

	// Err is nil iff the store decided, for this request or by an earlier answer that still holds, and has counted what
	// it admitted. It matches [ErrStore] when the policy decided, a [Fallback] included; else it matches [ErrInvalid],
	// or is the error of the caller's own context: these are refused whatever the policy.
	Err error
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

// Source says where a [Decision] comes from.
type Source uint8

const (
	SourceNone     Source = iota // nothing: the request was malformed, or its caller had left
	SourceCounted                // the store has looked at its counts for this request
	SourceCached                 // the store has refused by an answer that it gave before and that still holds
	SourceLeased                 // the store has admitted from units that this process took ahead
	SourceFallback               // the first store could not be asked, and the store of [Fallback] has decided
	SourcePolicy                 // [FailOpen], [FailClosed] or a [Fallback] that failed too has decided
	SourceSkipped                // the request is excluded from limits, in HTTP by its path or by its key
)

var sourceNames = [...]string{
	SourceNone: "none", SourceCounted: "counted", SourceCached: "cached", SourceLeased: "leased",
	SourceFallback: "fallback", SourcePolicy: "policy", SourceSkipped: "skipped",
}

// String returns a word for logs and metric labels, such as "counted".
func (s Source) String() string { return nameOf(sourceNames[:], uint8(s), "Source") }

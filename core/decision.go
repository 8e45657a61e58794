package core

import "time"

// Decision is the answer to one request: a plain value, which may be copied. A caller acts on Allowed.
// Err is never a reason to refuse: under [FailOpen] a request is allowed although the store failed.
type Decision struct {
	Allowed bool   // whether the request may be served
	Source  Source // the origin of the decision
	Region  string // the region that has decided, if the store is one of package regions

	// Limit is the limit that binds: of those that refuse, the one with the longest RetryAfter; else the one with the
	// least Remaining, then the longest ResetAfter, then the first. It is zero when nothing was counted.
	Limit Limit

	// Remaining is the number of units of Limit that are left after this request. After a refusal it may be more than
	// 0, but less than the cost.
	Remaining int64

	// ResetAfter is the time until, for a SlidingLog, the oldest counted request leaves the window and quota starts to
	// come back; for a CoarseLog, the oldest slot does; for a SlidingCounter, the current fixed window ends; for a
	// Bucket, it is full. It is 0 when nothing counts, or less than one unit of a counter.
	ResetAfter time.Duration

	// RetryAfter is 0 when allowed, else the exact time after which the same request would pass if the client sent no
	// other. It is [Never] when the cost exceeds a limit. A shared store may refuse by an answer of the last second,
	// unless the Request has Limits: then RetryAfter ignores later returns, charges and resets by other processes, and
	// their requests under other limits on the same counts.
	RetryAfter time.Duration

	At time.Time // of the store, in whole microseconds: the time at which a charged request is counted

	// Err is nil if the store decided and counted; a cached refusal counts as decided. It matches [ErrStore] if the
	// policy decided, a [Fallback] included. Else the request is refused under any policy: Err matches [ErrInvalid] or
	// [ErrKey], or is that of the key function or of the caller's context.
	Err error
}

// isTighter reports whether the admission d is tighter than other, an earlier one. An admission without
// numbers is not.
func (d *Decision) isTighter(other *Decision) bool {
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

// Source is the origin of a [Decision].
type Source uint8

const (
	SourceNone     Source = iota // nothing: the request was malformed, or its caller had left
	SourceCounted                // the store has looked at its counts for this request
	SourceCached                 // the store has refused by an answer that it gave before and that still holds
	SourceLeased                 // the store has admitted from units that this process took ahead
	SourceFallback               // the first store failed, and the store of [Fallback] has decided
	SourcePolicy                 // [FailOpen], [FailClosed] or a [Fallback] that failed too has decided
	SourceSkipped                // the request is excluded from limits, in HTTP by its path or by its key
)

var sourceNames = [...]string{
	SourceNone: "none", SourceCounted: "counted", SourceCached: "cached", SourceLeased: "leased",
	SourceFallback: "fallback", SourcePolicy: "policy", SourceSkipped: "skipped",
}

// String returns a word for logs and metric labels, such as "counted".
func (s Source) String() string { return nameOf(sourceNames[:], uint8(s), "Source") }

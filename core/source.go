package core

import "strconv"

// Source says where a [Decision] comes from.
type Source uint8

const (
	// SourceUnasked: neither a store nor the policy was asked. The request was malformed,
	// had no key, or its caller had left: Decision.Err says which.
	SourceUnasked Source = iota

	SourceCounted    // the store has looked at its counts for this request
	SourceRemembered // the store has refused by an answer that it gave before and that still holds
	SourceLeased     // the store has admitted from units that this process took ahead
	SourceFallback   // the first store could not be asked, and the store of [Fallback] has decided
	// SourcePolicy: no store could be asked, and [FailOpen], [FailClosed] or a
	// [Fallback] that failed too has decided.
	SourcePolicy

	SourceSkipped // the request is excluded from limits, in HTTP by its path or by its key
)

var sourceNames = [...]string{
	SourceUnasked:    "unasked",
	SourceCounted:    "counted",
	SourceRemembered: "remembered",
	SourceLeased:     "leased",
	SourceFallback:   "fallback",
	SourcePolicy:     "policy",
	SourceSkipped:    "skipped",
}

// String returns a word for logs and metric labels: "unasked", "counted",
// "remembered", "leased", "fallback", "policy" or "skipped".
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "Source(" + strconv.Itoa(int(s)) + ")"
}

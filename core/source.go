package core

import "strconv"

// Source says where a [Decision] comes from.
type Source uint8

const (
	// Unasked: neither a store nor the policy was asked. The request was malformed,
	// had no key, or its caller had left: Decision.Err says which.
	Unasked Source = iota

	// Counted: the store has looked at its counts for this request.
	Counted

	// Remembered: the store has refused by an answer that it gave before and that
	// still holds.
	Remembered

	// Leased: the store has admitted from units that this process took ahead.
	Leased

	// FromFallback: the first store could not be asked, and the store of [Fallback]
	// has decided.
	FromFallback

	// FromPolicy: no store could be asked, and [FailOpen], [FailClosed] or a
	// [Fallback] that failed too has decided.
	FromPolicy

	// Skipped: the request is excluded from limits, in HTTP by its path or by its key.
	Skipped
)

var sourceNames = [...]string{
	Unasked:      "unasked",
	Counted:      "counted",
	Remembered:   "remembered",
	Leased:       "leased",
	FromFallback: "fallback",
	FromPolicy:   "policy",
	Skipped:      "skipped",
}

// String returns a word for logs and metric labels: "unasked", "counted",
// "remembered", "leased", "fallback", "policy" or "skipped".
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "Source(" + strconv.Itoa(int(s)) + ")"
}

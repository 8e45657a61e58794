package core

import "strconv"

// Source says where a [Decision] comes from.
type Source uint8

const (
	// SourceUnasked: nothing was asked, since the request was malformed or its caller had left.
	SourceUnasked Source = iota

	SourceCounted    // the store has looked at its counts for this request
	SourceRemembered // the store has refused by an answer that it gave before and that still holds
	SourceLeased     // the store has admitted from units that this process took ahead
	SourceFallback   // the first store could not be asked, and the store of [Fallback] has decided
	SourcePolicy     // [FailOpen], [FailClosed] or a [Fallback] that failed too has decided
	SourceSkipped    // the request is excluded from limits, in HTTP by its path or by its key
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

// String returns a word for logs and metric labels, such as "counted".
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "Source(" + strconv.Itoa(int(s)) + ")"
}

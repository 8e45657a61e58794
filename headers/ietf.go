package headers

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/sashlimit/sash/core"
)

// IETF is the newest format of the IETF that this module writes. That is [Draft08] today,
// and changes when a later draft, or the RFC, writes the fields in another way. Name the
// draft where clients depend on it.
var IETF = Draft08

// Draft08 is the format of draft-ietf-httpapi-ratelimit-headers as its versions 08 to 11
// have it:
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=50;t=30
//
// RateLimit-Policy lists every limit: q is its requests, w its window in
// seconds. A window that is not a whole number of seconds has no w, since none
// would be true. Of a Bucket they are its burst and the seconds in which all of it comes back, so that q/w is its rate.
// RateLimit tells about the limit that binds:
//
//   - r is [core.Decision].Remaining: how many units the client has left after this
//     request. It may be above 0 on a refusal, of a cost that is larger.
//   - t is ResetAfter in seconds, rounded up: when quota begins to come back (a
//     SlidingLog or a CoarseLog), when the current fixed window ends (a SlidingCounter), or when all of
//     q is available again (a Bucket alone). On a refusal t equals Retry-After, the
//     time after which the same request passes, and is left out if it can never pass.
//
// The versions before 08 have other fields, which this package does not write.
//
// A refusal by a limit that is not among these, such as one of
// keyfuncs.LimitFailures, has a RateLimit-Policy of that limit alone.
//
// Under a [core.Fallback] for several replicas, q remains the configured limit while r
// is what is left of this replica's share.
var Draft08 Format = ietfFormat{}

type ietfFormat struct{}

const (
	ietfState  = "Ratelimit"
	ietfPolicy = "Ratelimit-Policy"
)

// Names implements Format.
func (ietfFormat) Names() []string { return []string{ietfState, ietfPolicy} }

// Write implements Format. The names of limits need no escapes in a structured field, since core.New has checked them.
func (ietfFormat) Write(h http.Header, limits []core.Limit, d core.Decision) {
	if !d.Allowed && !slices.ContainsFunc(limits, func(l core.Limit) bool { return l.Name == d.Limit.Name }) {
		limits = []core.Limit{d.Limit}
	}
	var few [128]byte
	text := appendQuoted(few[:0], d.Limit.Name)
	text = strconv.AppendInt(append(text, ";r="...), d.Remaining, 10)
	if d.Allowed {
		text = strconv.AppendInt(append(text, ";t="...), ceilSeconds(d.ResetAfter), 10)
	} else if seconds, ok := RetryAfter(d); ok {
		text = strconv.AppendInt(append(text, ";t="...), seconds, 10)
	}
	state := len(text)
	all := string(appendPolicy(text, limits)) // one allocation for both
	values := []string{all[:state], all[state:]}
	h[ietfState], h[ietfPolicy] = values[0:1:1], values[1:2:2]
}

// appendPolicy appends the value of RateLimit-Policy.
func appendPolicy(p []byte, limits []core.Limit) []byte {
	for i, l := range limits {
		if i > 0 {
			p = append(p, ", "...)
		}
		p = appendQuoted(p, l.Name)
		p = strconv.AppendInt(append(p, ";q="...), l.Requests, 10)
		if seconds, ok := wholeSeconds(l.Window); ok {
			p = strconv.AppendInt(append(p, ";w="...), seconds, 10)
		}
	}
	return p
}

// appendQuoted appends the name in quotes.
func appendQuoted(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), '"')
}

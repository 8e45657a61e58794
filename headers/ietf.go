package headers

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/sashlimit/sash/core"
)

// IETF is the newest format of the IETF that this package has: [Draft08] today, and another one after a later draft, or
// the RFC, has changed the fields. Use Draft08 itself if clients depend on it.
var IETF = Draft08

// Draft08 is the format of draft-ietf-httpapi-ratelimit-headers in its versions 08 to 11:
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=50;t=30
//
// RateLimit-Policy lists all limits: q is the Requests of a limit, w its Window in seconds. A window that is not a
// whole number of seconds has no w. For a Bucket they are its burst and the time to refill it, so q/w is its rate.
// RateLimit is about the limit that binds:
//
//   - r is [core.Decision].Remaining, the units that the client has left after this request. A refusal of a larger cost
//     may have an r above 0.
//   - t is ResetAfter in seconds, rounded up: until the first units return (a SlidingLog or a CoarseLog), the current
//     fixed window ends (a SlidingCounter), or all units are available again (a Bucket). On a refusal, t equals
//     Retry-After, and is absent if no retry can pass.
//
// Versions before 08 have other fields, which this package does not write.
//
// A refusal by another limit, such as that of keyfuncs.LimitFailures, has a RateLimit-Policy of that limit alone.
//
// Under a [core.Fallback] for several replicas, q is the configured limit, and r the rest of this replica's share.
var Draft08 Format = ietfFormat{}

type ietfFormat struct{}

const (
	ietfState  = "Ratelimit"
	ietfPolicy = "Ratelimit-Policy"
)

// Names implements Format.
func (ietfFormat) Names() []string { return []string{ietfState, ietfPolicy} }

// Write implements Format. Names of limits need no escapes in a structured field, since core.New checks them.
func (ietfFormat) Write(h http.Header, limits []core.Limit, d core.Decision) {
	if !d.Allowed && !slices.ContainsFunc(limits, func(l core.Limit) bool { return l.Name == d.Limit.Name }) {
		limits = []core.Limit{d.Limit}
	}
	var buf [128]byte
	text := strconv.AppendQuote(buf[:0], d.Limit.Name)
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
		p = strconv.AppendQuote(p, l.Name)
		p = strconv.AppendInt(append(p, ";q="...), l.Requests, 10)
		if seconds, ok := wholeSeconds(l.Window); ok {
			p = strconv.AppendInt(append(p, ";w="...), seconds, 10)
		}
	}
	return p
}

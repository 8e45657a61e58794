// Package headers writes decisions into HTTP header fields: the X-RateLimit fields that most clients know
// ([XRateLimit]), the RateLimit fields of the IETF's draft ([IETF], or by its version [Draft08]), and the value of
// Retry-After. docs/nethttp.md says what each field tells.
//
//	nethttp.WithHeaders(headers.XRateLimit, headers.IETF)
//	nethttp.WithHeaders(headers.XRateLimit.UnixReset().WithWindow())
//
// All of the package is safe for concurrent use.
package headers

import (
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
)

// Format is a set of header fields about the limit of a client. The formats of this package are [XRateLimit] and
// [IETF]; programs may have others.
type Format interface {
	// Write sets the fields in h for a decision by a limiter with these limits. It is called for decisions with a
	// Limit, admitted or refused, before the response is written and by many goroutines at once. It must not change the
	// limits, and each value slice must belong to one field of one response, since handlers may change it and append to
	// it.
	Write(h http.Header, limits []core.Limit, d core.Decision)

	// Names returns the names of the fields that Write sets, in the form of [http.CanonicalHeaderKey]. A guard refuses
	// a format that writes Retry-After, or a field about the body or the connection.
	Names() []string
}

// RetryAfter returns the value of the Retry-After field for a refusal: whole seconds, rounded up, at least 1. ok is
// false if the request was allowed, or if no retry can pass because its cost exceeds the limit ([core.Never]).
func RetryAfter(d core.Decision) (seconds int64, ok bool) {
	if d.Allowed || d.RetryAfter == core.Never {
		return 0, false
	}
	return max(1, ceilSeconds(d.RetryAfter)), true
}

// ceilSeconds returns d in seconds, rounded up. It does not overflow, as the sum of d and a second might.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// wholeSeconds returns the window in seconds, and reports whether it is a whole number of seconds.
func wholeSeconds(window time.Duration) (int64, bool) {
	return int64(window / time.Second), window >= time.Second && window%time.Second == 0
}

// Package headers writes what a limiter decided into HTTP header fields: the
// X-RateLimit fields that most clients know ([XRateLimit]), the RateLimit fields of
// the IETF's draft ([IETF], or by its version [Draft08]), and the value of
// Retry-After. It formats, and decides nothing.
//
//	nethttp.WithHeaders(headers.XRateLimit, headers.IETF)
//	nethttp.WithHeaders(headers.XRateLimit.UnixReset().WithWindow())
//
// Everything here is safe for concurrent use.
package headers

import (
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
)

// Format is a set of header fields that tell a client about its limit. The
// formats of this package are [XRateLimit] and [IETF]; you may write others.
type Format interface {
	// Write sets the fields in h for a decision by a limiter of these limits. It is called for
	// decisions whose Limit is known, admitted or refused, before the response is written and by
	// many goroutines at once. It does not change the limits. Every value slice that it puts into
	// h belongs to that response and to that field alone: handlers may change it and append to it.
	Write(h http.Header, limits []core.Limit, d core.Decision)

	// Names returns the names of the fields that Write sets, as
	// [http.CanonicalHeaderKey] writes them. A guard takes no format that writes
	// Retry-After, or a field about the body or the connection.
	Names() []string
}

// RetryAfter returns the value of the Retry-After field for a refusal: whole
// seconds, rounded up so that the client does not come too early, at least 1.
// ok is false if there is nothing to wait for: the request was allowed, or its
// cost exceeds the limit ([core.Never]).
func RetryAfter(d core.Decision) (seconds int64, ok bool) {
	if d.Allowed || d.RetryAfter == core.Never {
		return 0, false
	}
	return max(1, ceilSeconds(d.RetryAfter)), true
}

// ceilSeconds returns d in seconds, rounded up. Unlike an addition of a second
// before the division, it does not overflow.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// wholeSeconds returns the window in seconds, and reports whether the window is a
// whole number of them: 1.5 s is neither 1 nor 2.
func wholeSeconds(window time.Duration) (int64, bool) {
	return int64(window / time.Second), window >= time.Second && window%time.Second == 0
}

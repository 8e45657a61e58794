package nethttp

import (
	"time"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithRetryJitter spreads the clients that are refused with 429, so that they do not all come
// back when a window ends: each refusal draws a whole number of seconds from 0 to max, all
// equally likely, and tells its client to come back that much later, never sooner. The
// number is the same in Retry-After, in the body, in the t of headers.IETF and in the
// RetryAfter of the decision that a function of [WithRefusal] gets; X-RateLimit-Reset is
// about the quota and stays exact. The observer gets the decision without it. Where max
// is not a whole number of seconds it is rounded down. max is from 1 s to 24 h.
//
// A 503 is spread without this option; see [WithOutageRetryAfter].
func WithRetryJitter(max time.Duration) Option {
	return wait("WithRetryJitter", max, func(c *guard.Config) { c.Jitter = max })
}

package nethttp

import (
	"time"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithRetryJitter adds jitter to the Retry-After of a 429, so that clients do not all retry when a window ends: a
// random whole number of seconds from 0 to max, uniformly distributed. The sum is the same in Retry-After, in the body,
// in the t of headers.IETF and in the RetryAfter of the decision for a function of [WithRefusal]; X-RateLimit-Reset is
// about the quota and stays exact. The observer gets the decision without jitter. max is from 1 s to 24 h, and is
// rounded down to whole seconds.
//
// A 503 has jitter without this option; see [WithOutageRetryAfter].
func WithRetryJitter(max time.Duration) Option {
	return withWait("WithRetryJitter", max, func(c *guard.Config) { c.Jitter = max })
}

package nethttp

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sashlimit/sash/core"
)

// WithJitter spreads the clients that are refused with 429, so that they do not all come
// back when a window ends: each refusal draws a whole number of seconds from 0 to max, all
// equally likely, and tells its client to come back that much later, never sooner. The
// number is the same in Retry-After, in the body, in the t of headers.IETF and in the
// RetryAfter of the decision that a function of [WithRefusal] gets; X-RateLimit-Reset is
// about the quota and stays exact. The observer hears of the decision without it. Where max
// is not a whole number of seconds it is rounded down. max is from 1 s to 24 h.
//
// A 503 is spread without this option; see [WithRetryAfter].
func WithJitter(max time.Duration) Option {
	return func(c *config) error {
		if max < time.Second || max > maxWait {
			return fmt.Errorf("sash: WithJitter(%v): give from 1s to %v, such as 10*time.Second", max, maxWait)
		}
		c.jitter = int64(max / time.Second)
		return nil
	}
}

// spread sets the RetryAfter that the client of a refused request is told.
func (c *config) spread(d *core.Decision) {
	switch {
	case d.RetryAfter == 0 && reasonOf(d) == noStore:
		d.RetryAfter = c.outageWait.draw()
	case c.jitter > 0 && reasonOf(d) == overLimit:
		d.RetryAfter += time.Duration(rand.Int64N(c.jitter+1)) * time.Second
	}
}

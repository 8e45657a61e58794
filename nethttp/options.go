package nethttp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/errs"
)

// Option is an option of [New], [NewDecider], [Middleware] and the adapters.
type Option func(*config) error

// config is what the options set. It does not change after construction.
type config struct {
	skipPaths     []skippedPath
	skip          []func(*http.Request) bool
	cost          func(*http.Request) int                                 // nil: each request costs 1
	label         func(*http.Request) string                              // nil: the adapter's; see WithLabel
	customRefusal func(http.ResponseWriter, *http.Request, core.Decision) // nil: the function Refuse
	formats       []headers.Format
	outageWait    waitRange
	skipKeys      []func(string) bool
	limits        func(*http.Request) ([]core.Limit, error)  // nil: those of the limiter
	limiterOf     func(*http.Request) (*core.Limiter, error) // nil: the guard's limiter
	shadow        func() bool                                // nil: never
	all           []Pair
	jitter        int64 // seconds; see WithJitter

	countWhen func(r *http.Request, status int) bool             // nil: every request counts
	costAfter func(r *http.Request, status int, bytes int64) int // nil: the cost before is the cost
	inContext bool                                               // see WithDecisionInContext

	settings any // what the options of an adapter change; nil without an adapter
}

// WithHeaders sets the formats of the limit fields, instead of the default
// [headers.Classic]. WithHeaders() writes none; Retry-After remains.
func WithHeaders(formats ...headers.Format) Option {
	formats = slices.Clone(formats)
	return func(c *config) error {
		if i := slices.IndexFunc(formats, func(f headers.Format) bool { return errs.IsNil(f) }); i >= 0 {
			return fmt.Errorf("sash: WithHeaders was given %s for a format: "+
				"use headers.Classic, headers.IETF, or none at all for no fields", errs.NilName(formats[i]))
		}
		c.formats = formats
		return nil
	}
}

// WithRetryAfter sets how long a client is told to wait while the store cannot
// be asked (503), instead of 5 s. Each 503 draws its own whole number of seconds
// from d to 2d, all equally likely, so that the clients of an outage do not come
// back at once: a d of 5 s draws one of 5, 6, 7, 8, 9 and 10. Where d is not a
// whole number of seconds, d is rounded up and 2d down. The number is the same in
// Retry-After, in the body, and in the RetryAfter of the decision that a function
// of [WithRefusal] gets. d is from 1 s to 24 h.
func WithRetryAfter(d time.Duration) Option {
	return func(c *config) error {
		if d < time.Second || d > maxWait {
			return fmt.Errorf("sash: WithRetryAfter(%v): give from 1s to %v, such as 10*time.Second", d, maxWait)
		}
		c.outageWait = newWaitRange(d)
		return nil
	}
}

const (
	defaultWait = 5 * time.Second
	maxWait     = 24 * time.Hour
)

// waitRange holds the least and the most seconds that a client is told to wait
// while the store cannot be asked.
type waitRange struct{ least, most int64 }

// newWaitRange returns the whole seconds from d to 2d.
func newWaitRange(d time.Duration) waitRange {
	return waitRange{
		least: int64((d + time.Second - 1) / time.Second),
		most:  int64(2 * d / time.Second),
	}
}

// draw returns a random wait of the range.
func (w waitRange) draw() time.Duration {
	return time.Duration(w.least+rand.Int64N(w.most-w.least+1)) * time.Second
}

// WithRefusal sets what writes the response to a refused request, whatever the
// reason, instead of the function [Refuse]. The status is that of [Status] unless
// the function writes another; d.Err says why. Limit fields, Retry-After and
// Cache-Control are set. If the function writes nothing, or only an interim
// response such as 103, Refuse writes the response. If it panics, the server ends
// the connection, as after a panic of any handler. d.Err
// may quote the client's input: log it, do not send it.
func WithRefusal(refuse func(w http.ResponseWriter, r *http.Request, d core.Decision)) Option {
	return func(c *config) error {
		if refuse == nil {
			return errors.New("sash: WithRefusal(nil): give a function, or leave the option out for nethttp.Refuse")
		}
		c.customRefusal = refuse
		return nil
	}
}

// WithCost sets how many units a request costs, instead of 1. A cost of 0 is
// always admitted and counts nothing; a negative one is answered with 500. It is
// called by many goroutines at once and must not read the body.
func WithCost(cost func(*http.Request) int) Option {
	return func(c *config) error {
		if cost == nil {
			return errors.New("sash: WithCost(nil): give a func(*http.Request) int, " +
				"or leave the option out for a cost of 1")
		}
		c.cost = cost
		return nil
	}
}

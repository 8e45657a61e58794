package nethttp

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Option is an option of [New], [Middleware] and the adapters.
type Option interface{ option() }

// option implements Option.
type option func(*guard.Config) error

func (option) option() {}

// Apply is for package guard.
func (o option) Apply(c *guard.Config) error { return o(c) }

// withFunc returns an option that sets a function. A nil function is an error of construction.
func withFunc[F any](name string, function F, set func(*guard.Config)) Option {
	return option(func(c *guard.Config) error {
		if errs.IsNil(function) {
			return fmt.Errorf("sash: %s(nil): give a %T, or leave the option out", name, function)
		}
		set(c)
		return nil
	})
}

// withWait returns an option that sets a wait of clients, from 1 s to 24 h.
func withWait(name string, d time.Duration, set func(*guard.Config)) Option {
	const maxWait = 24 * time.Hour
	return option(func(c *guard.Config) error {
		if d < time.Second || d > maxWait {
			return fmt.Errorf("sash: %s(%v): give from 1s to %v, such as 10*time.Second", name, d, maxWait)
		}
		set(c)
		return nil
	})
}

// WithHeaders sets the formats of the limit fields, by default [headers.XRateLimit]. WithHeaders() writes none;
// Retry-After remains.
func WithHeaders(formats ...headers.Format) Option {
	formats = slices.Clone(formats)
	return option(func(c *guard.Config) error {
		if i := slices.IndexFunc(formats, func(f headers.Format) bool { return errs.IsNil(f) }); i >= 0 {
			return fmt.Errorf("sash: WithHeaders was given %s for a format: "+
				"use headers.XRateLimit, headers.IETF, or none at all for no fields", errs.NilName(formats[i]))
		}
		c.Formats = formats
		return nil
	})
}

// WithOutageRetryAfter sets the minimum Retry-After of a 503 while the store fails, by default 5 s. So that clients do
// not all retry at once, each 503 has a random whole number of seconds from d to 2d, uniformly distributed: 5, 6, 7, 8,
// 9 or 10 for a d of 5 s. d is rounded up to whole seconds and 2d down. The number is the same in Retry-After, in the
// body, and in the RetryAfter of the decision for a function of [WithRefusal]. d is from 1 s to 24 h.
func WithOutageRetryAfter(d time.Duration) Option {
	return withWait("WithOutageRetryAfter", d, func(c *guard.Config) { c.OutageRetryAfter = d })
}

// WithRefusal sets the function that writes the response to a refused request, for any reason, by default [Refuse]. The
// status is that of [Status] unless the function writes another; d.Err has the reason. Limit fields, Retry-After and
// Cache-Control are set. If the function writes no response, or only an interim one such as 103, Refuse writes it. If
// it panics, the server ends the connection, as after a panic of any handler. d.Err may quote the client's input: log
// it, do not send it.
func WithRefusal(refuse func(w http.ResponseWriter, r *http.Request, d core.Decision)) Option {
	return withFunc("WithRefusal", refuse, func(c *guard.Config) {
		c.Refusal = func(w http.ResponseWriter, r *http.Request, _ any, d core.Decision) error {
			refuse(w, r, d)
			return nil
		}
	})
}

// WithCost sets the cost of a request in units, by default 1. A request with a cost of 0 is always admitted and counts
// nothing; one with a negative cost is left to the limiter's policy. cost is called by many goroutines at once and must
// not read the body.
func WithCost(cost func(*http.Request) int) Option {
	return withFunc("WithCost", cost, func(c *guard.Config) {
		c.Cost = func(r *http.Request, _ any) int { return cost(r) }
	})
}

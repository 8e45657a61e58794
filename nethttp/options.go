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

// given returns an option that sets a function. A nil function is an error of construction.
func given[F any](name string, function F, set func(*guard.Config)) Option {
	return option(func(c *guard.Config) error {
		if errs.IsNil(function) {
			return fmt.Errorf("sash: %s(nil): give a %T, or leave the option out", name, function)
		}
		set(c)
		return nil
	})
}

// wait returns an option that sets a wait of clients that their limit does not set.
func wait(name string, d time.Duration, set func(*guard.Config)) Option {
	const most = 24 * time.Hour
	return option(func(c *guard.Config) error {
		if d < time.Second || d > most {
			return fmt.Errorf("sash: %s(%v): give from 1s to %v, such as 10*time.Second", name, d, most)
		}
		set(c)
		return nil
	})
}

// WithHeaders sets the formats of the limit fields, instead of the default
// [headers.XRateLimit]. WithHeaders() writes none; Retry-After remains.
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

// WithOutageRetryAfter sets the Retry-After of a client while the store fails (503), instead of
// 5 s. Each 503 draws its own whole number of seconds
// from d to 2d, all equally likely, so that the clients of an outage do not come
// back at once: a d of 5 s draws one of 5, 6, 7, 8, 9 and 10. Where d is not a
// whole number of seconds, d is rounded up and 2d down. The number is the same in
// Retry-After, in the body, and in the RetryAfter of the decision that a function
// of [WithRefusal] gets. d is from 1 s to 24 h.
func WithOutageRetryAfter(d time.Duration) Option {
	return wait("WithOutageRetryAfter", d, func(c *guard.Config) { c.OutageRetryAfter = d })
}

// WithRefusal sets what writes the response to a refused request, whatever the
// reason, instead of the function [Refuse]. The status is that of [Status] unless
// the function writes another; d.Err says why. Limit fields, Retry-After and
// Cache-Control are set. If the function writes nothing, or only an interim
// response such as 103, Refuse writes the response. If it panics, the server ends
// the connection, as after a panic of any handler. d.Err
// may quote the client's input: log it, do not send it.
func WithRefusal(refuse func(w http.ResponseWriter, r *http.Request, d core.Decision)) Option {
	return given("WithRefusal", refuse, func(c *guard.Config) { c.Refusal = refuse })
}

// WithCost sets how many units a request costs, instead of 1. A cost of 0 is
// always admitted and counts nothing; of a negative one the limiter's policy decides. It
// is called by many goroutines at once and must not read the body.
func WithCost(cost func(*http.Request) int) Option {
	return given("WithCost", cost, func(c *guard.Config) {
		c.Cost = func(r *http.Request, _ any) int { return cost(r) }
	})
}

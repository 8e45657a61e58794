package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// CountWhen counts only the requests for which counted returns true, such as the failed ones of a login:
//
//	nethttp.CountWhen(func(r *http.Request, status int) bool { return status == http.StatusUnauthorized })
//
// A request is counted before its handler runs, and given back afterwards if counted returns false. A request counts in
// the window in which it starts. So more failures than the limit may end in one window if slow requests end together;
// http.Server.ReadTimeout stops clients that make them slow by their body. The limit fields have the remaining units
// during the request.
//
// A request over the limit whose Retry-After is more than a second waits while requests of its client are in flight at
// this guard, in this process, until it is admitted or no request was given back for a second. If some are in flight
// even then, its Retry-After is 1. The observer gets the last decision.
//
// status is that of the response, as [http.ResponseWriter] sends it: 101 if the handler has hijacked the connection,
// 500 if it has panicked before a status was sent. If the request's context has ended before a status was sent, also
// by an outer http.TimeoutHandler, counted is not called, and the request stays counted; so it does if counted
// panics, or the store fails.
//
// An error of an echo handler has the status of its answer, by any middleware or error handler. Without an answer the
// request stays counted.
//
// counted gets the request of the handler. It is called by many goroutines at once, after the handler and before the
// response ends, and must not read the body. [Guard.Check] sees no handler: its requests stay counted.
func CountWhen(counted func(r *http.Request, status int) bool) Option {
	return withFunc("CountWhen", counted, func(c *guard.Config) { c.CountWhen = counted })
}

// CostAfter sets the cost of a request after its handler, such as the bytes of the response, or units that only the
// handler knows. bytes is the number of bytes of the body that the handler has written, before any compression by outer
// middleware.
//
// Before the handler, the request has an estimated cost by [WithCost], or 1, by which it is admitted or refused. After
// the handler the remainder is given back, or the excess is counted, even beyond the limit: later requests wait until
// units are free again. An estimate of 0 refuses no request.
//
// cost is called as the function of [CountWhen] is. A negative cost leaves the estimate. A cost of 0 counts nothing, so
// the two options are not used together.
func CostAfter(cost func(r *http.Request, status int, bytes int64) int) Option {
	return withFunc("CostAfter", cost, func(c *guard.Config) { c.CostAfter = cost })
}

// WithDecisionInContext puts the [Admission] of a request into the context of its handler, for [FromContext]. It adds
// some allocations to each request.
func WithDecisionInContext() Option {
	return option(func(c *guard.Config) error {
		c.DecisionInContext = true
		return nil
	})
}

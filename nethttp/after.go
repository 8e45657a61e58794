package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// CountWhen counts a request only if counted returns true for it, such as the failed
// ones of a login:
//
//	nethttp.CountWhen(func(r *http.Request, status int) bool { return status == http.StatusUnauthorized })
//
// The request is counted before its handler runs, and given back after it if counted returns false. So it counts from
// the limiter's decision on: the limit holds for the beginnings of requests, however many come at once. Requests that
// are held, by a slow body for example, may end in one window together; http.Server.ReadTimeout bounds them. The limit
// fields say what is left while the request is under way.
//
// A request that finds the limit filled waits while requests of the client are under way at this guard, in this
// process, until it is admitted or none was given back for a second. If some are under way even then, its Retry-After
// is 1. The observer hears how it ended.
//
// status is that of the response, as [http.ResponseWriter] sends it: 101 if the handler has hijacked the connection,
// 500 if it has panicked before a status was sent. If the request's context has ended before anything was sent, also
// by an http.TimeoutHandler outside, counted is not called, and the request stays counted; so it does if counted
// panics, or the store fails.
//
// An error that a handler of echo returns has the status of its answer, whoever gives that; an error without an answer
// stays counted.
//
// counted gets the request that the handler has got. It is called by many goroutines at once, after the handler and
// before the response ends, and must not read the body. [Guard.Check] does not see what a handler does: what it
// admits stays counted.
func CountWhen(counted func(r *http.Request, status int) bool) Option {
	return given("CountWhen", counted, func(c *guard.Config) { c.CountWhen = counted })
}

// CostAfter makes a request cost what cost returns for it after the handler: bytes that
// were sent, or units that only the handler knows. bytes are those of the body that the
// handler has written, as they were when they came here: a middleware outside the guard may
// compress them.
//
// Before the handler, the request costs what [WithCost] says, or 1: an estimate, by which
// it is admitted or refused. After the handler the rest is given back, or the excess is
// counted, even beyond the limit: later requests wait until there is room again. An
// estimate of 0 refuses no request.
//
// All that [CountWhen] says about its function holds for cost too. A negative cost
// leaves the estimate. A cost of 0 counts nothing, so the two options do not go together.
func CostAfter(cost func(r *http.Request, status int, bytes int64) int) Option {
	return given("CostAfter", cost, func(c *guard.Config) { c.CostAfter = cost })
}

// WithDecisionInContext puts the [Admission] of a request into the context that its
// handler gets, for [FromContext]. Requests of guards without the option pay nothing.
func WithDecisionInContext() Option {
	return option(func(c *guard.Config) error {
		c.DecisionInContext = true
		return nil
	})
}

package nethttp

import (
	"errors"
	"net/http"
)

// CountWhen counts a request only if counted returns true for it, such as the failed
// ones of a login:
//
//	nethttp.CountWhen(func(r *http.Request, status int) bool { return status == http.StatusUnauthorized })
//
// The request is counted before its handler runs, so that requests in parallel never
// exceed the limit, and given back after the handler if counted returns false. So the
// limit fields say what is left while the request is under way. A client at its limit
// gets 429 although requests that are under way may be given back soon: Retry-After is
// the time after which it passes even if all of them count.
//
// status is the status of the response:
//
//   - the one that the handler has sent: 200 if it has written a body, flushed or
//     written nothing; never an interim one such as 103;
//   - 101 if the handler has taken over the connection (hijacked it), whatever it sends;
//   - 500 if the handler has panicked, with [http.ErrAbortHandler] too, before it has
//     sent a status;
//   - the one of a guard inside that has refused, such as 429.
//
// Under sashecho, an error that the handler returns is handed to the server's
// HTTPErrorHandler first, which sends the status. If the context of the request has ended
// before anything is sent, because the client has left or the time of an
// [http.TimeoutHandler] outside is over, nothing says how the request has ended: counted is
// not called, and the request stays counted.
//
// counted gets the request that the handler has got. It is called by many goroutines at
// once, after the handler and before the response ends. It must not read the body. If it
// panics, or if the store cannot be asked when the request is given back, the request stays
// counted. The observer hears of the decision alone, not of what is given back.
//
// The handler gets a ResponseWriter that notes the status, with [http.Flusher],
// [http.Hijacker] and [http.Pusher] as the server's own has them, io.ReaderFrom, and Unwrap
// for [http.ResponseController]. [Guard.Check], [Decider.Admit] and [Decider.Decide] do not
// see what a handler does: what they admit stays counted.
func CountWhen(counted func(r *http.Request, status int) bool) Option {
	return func(c *config) error {
		if counted == nil {
			return errors.New("sash: CountWhen(nil): give a func(*http.Request, int) bool, " +
				"or leave the option out to count every request")
		}
		c.countWhen = counted
		return nil
	}
}

// CostAfter makes a request cost what cost returns for it after the handler: bytes that
// were sent, or units that only the handler knows. bytes are those of the body that the
// handler has written, as they were when they came here: a middleware outside the guard may
// compress them.
//
// Before the handler, the request costs what [WithCost] says, or 1: an estimate, by which
// it is admitted or refused. After the handler the rest is given back, or the excess is
// counted, even beyond the limit: later requests wait until there is room again. An
// estimate of 0 refuses nobody.
//
// All that [CountWhen] says about its function holds for cost too. A negative cost
// leaves the estimate. A cost of 0 counts nothing, so the two options do not go together.
func CostAfter(cost func(r *http.Request, status int, bytes int64) int) Option {
	return func(c *config) error {
		if cost == nil {
			return errors.New("sash: CostAfter(nil): give a func(*http.Request, int, int64) int, " +
				"or leave the option out")
		}
		c.costAfter = cost
		return nil
	}
}

// WithDecisionInContext puts the [Admission] of a request into the context that its
// handler gets, for [FromContext]. Requests of guards without the option pay nothing.
func WithDecisionInContext() Option {
	return func(c *config) error {
		c.inContext = true
		return nil
	}
}

// checkAfter returns an error if options about what happens after the handler do not go
// together.
func (c *config) checkAfter() error {
	if c.countWhen != nil && c.costAfter != nil {
		return errors.New("sash: CountWhen and CostAfter do not go together: " +
			"give CostAfter alone, with a function that returns 0 for a request that is not to count")
	}
	if len(c.all) > 0 && (c.looksAfter() || c.inContext) {
		return errors.New("sash: All does not go together with CountWhen, CostAfter and WithDecisionInContext: " +
			"what all limits have counted stays counted; give one guard All, and another inside it the other option")
	}
	return nil
}

// looksAfter reports whether an option looks at what the handler has done.
func (c *config) looksAfter() bool { return c.countWhen != nil || c.costAfter != nil }

package nethttp

import (
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Shadow tries a limit out: every request is decided, counted and observed as without it,
// and goes on to its handler whatever the decision, without limit fields. It goes on also
// if it has no key, or if the store fails, whatever the policy. The events of
// the observer have Shadow set, and the Decision that the client would have got, with the
// status of [Status]. To switch a shadow on and off while the program runs, use [ShadowWhile].
//
// Of guards around and inside, each is in the shadow or not by itself. A limiter inside a
// key function (keyfuncs.LimitFailures) knows nothing of it, but its refusals do not count
// here.
func Shadow() Option { return ShadowWhile(func() bool { return true }) }

// ShadowWhile is [Shadow] for the requests at which on returns true. It is asked once for
// each request that is not skipped, by many goroutines at once:
//
//	var trial atomic.Bool
//	nethttp.ShadowWhile(trial.Load)
func ShadowWhile(on func() bool) Option {
	return given("ShadowWhile", on, func(c *guard.Config) { c.Shadow = on })
}

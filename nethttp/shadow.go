package nethttp

import (
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Shadow tests a limit in a dry run: every request is decided, counted and observed as without it, and goes on to its
// handler whatever the decision, without limit fields. It goes on also if it has no key, or if the store fails,
// whatever the policy. With [CountWhen], a shadowed request does not wait, so it may report more refusals. An event has
// Shadow set, and its Decision is the one that would have been enforced, so [Status] gives the status that the client
// would have got. To switch a shadow on and off while the program runs, use [ShadowWhile].
//
// Shadow holds for one guard, not for outer and inner ones. It does not hold for a limiter inside a key function
// (keyfuncs.LimitFailures), whose refusals have no effect here.
func Shadow() Option { return ShadowWhile(func() bool { return true }) }

// ShadowWhile is [Shadow] for the requests at which on returns true. on is called once for each request that is not
// skipped, by many goroutines at once:
//
//	var trial atomic.Bool
//	nethttp.ShadowWhile(trial.Load)
func ShadowWhile(on func() bool) Option {
	return withFunc("ShadowWhile", on, func(c *guard.Config) { c.Shadow = on })
}

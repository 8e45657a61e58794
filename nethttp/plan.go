package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithLimits sets the limits of each request, such as numbers of a database for the client. limits gets the client's
// key, such as [keyfuncs.APIKeyKey] of its account. It must return the limiter's limits in the same order. Only
// Requests may differ, and the Window of a Bucket. A nil slice and a nil error mean the limiter's own limits. The
// counts are those of the limiter, so a client whose numbers change keeps its used units; see [core.Request]. All
// header fields have these numbers, RateLimit-Policy too.
//
// limits is called for each request with a key that is not skipped, by many goroutines at once, and must not read the
// body. It must be quick: keep the numbers in memory for some seconds. The guard does not change the slice, so limits
// may return the same one again. If limits returns an error, or limits that differ in more, the limiter's policy
// decides, with an error that matches core.ErrLimits. For a limiter without limits it must return some, of any form.
func WithLimits(limits func(r *http.Request, key string) ([]core.Limit, error)) Option {
	return withFunc("WithLimits", limits, func(c *guard.Config) { c.Limits = limits })
}

// WithLimiter sets the limiter of each request, such as one for the client's plan, with windows of its own. nil means
// the guard's limiter, which may have no limits. Make the limiters with [core.Limiter.WithLimits] of the guard's
// limiter: then a client that changes its plan keeps its used units under the limits of both plans.
//
//	free := core.Must(core.New(core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(60)}}))
//	pro := core.Must(free.WithLimits(core.PerMinute(600), core.PerDay(100_000)))
//	isPro := map[string]bool{keyfuncs.APIKeyKey("acme"): true} // by the account that identify returns
//	nethttp.WithLimiter(func(_ *http.Request, key string) (*core.Limiter, error) {
//		if isPro[key] {
//			return pro, nil
//		}
//		return nil, nil
//	})
//
// The limiter may have any store: its counts, its policy and its observer are those of the request, and units are given
// back to it. The guard's limiter gets the events of requests that are skipped or have no key. With [WithLimits] too,
// the numbers are for the limits of this limiter.
//
// limiter is called before the function of WithLimits and in the same way. If it returns an error, a zero Limiter or
// one without limits, the policy of the guard's limiter decides, with an error that matches core.ErrLimits.
func WithLimiter(limiter func(r *http.Request, key string) (*core.Limiter, error)) Option {
	return withFunc("WithLimiter", limiter, func(c *guard.Config) {
		c.Limiter = func(r *http.Request, _ any, key string) (*core.Limiter, error) { return limiter(r, key) }
	})
}

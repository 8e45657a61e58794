package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithLimits sets the limits for each request, such as numbers that a database has for the
// client. limits gets the client's key, such as [keyfuncs.APIKeyKey] of its account, and
// returns one limit for each limit of the limiter, in the same order, with other Requests.
// They are decided on the limiter's own counts, so that a client whose numbers change keeps
// what it has used; see [core.Request]. nil stands for the limits of the limiter. All header
// fields tell the client these numbers, RateLimit-Policy too.
//
// limits is called for each request that is not skipped and has a key, by many goroutines
// at once, and must not read the body. It is to be quick: keep the numbers in memory for
// some seconds. The guard does not change the slice, so that limits may return the same
// one again. If limits returns an error, or limits that are not the limiter's but for
// their Requests, the limiter's policy decides, with an error that matches core.ErrLimits;
// return nil, nil to go on with the limiter's limits instead. For a limiter without limits
// it may return any.
func WithLimits(limits func(r *http.Request, key string) ([]core.Limit, error)) Option {
	return given("WithLimits", limits, func(c *guard.Config) { c.Limits = limits })
}

// WithLimiter sets the limiter that decides each request, such as that of the plan that
// the client pays for, with windows of its own; nil stands for the guard's limiter, which
// may have no limits. Make the limiters with [core.Limiter.WithLimits] of the guard's limiter:
// then a client that changes its plan keeps what it has used under the limits that both
// plans have.
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
// Any limiter will do, on any store: its counts, its policy and its observer are those of
// the request, and what is given back after the handler goes back to it. The guard's own
// limiter gets the events of requests that are skipped or have no key. With [WithLimits] too, the
// numbers are those of the limiter that decides.
//
// limiter is called as the function of WithLimits is, before it. If it returns an error, or a
// limiter that is zero or without limits, the policy of the guard's limiter decides, with an
// error that matches core.ErrLimits.
func WithLimiter(limiter func(r *http.Request, key string) (*core.Limiter, error)) Option {
	return given("WithLimiter", limiter, func(c *guard.Config) {
		c.Limiter = func(r *http.Request, _ any, key string) (*core.Limiter, error) { return limiter(r, key) }
	})
}

package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// LimitByIP returns a middleware that limits each address, counted in this process:
//
//	http.ListenAndServe(":8080", nethttp.LimitByIP(core.PerMinute(100))(mux))
//
// It is [Middleware] of a limiter on a memstore of its own, by [keyfuncs.RemoteIP], without options. Each call counts
// for itself. All limits hold. A refusal is a 429 with Retry-After, and all responses have X-RateLimit-*.
//
// Behind a proxy all clients have the proxy's address: take Middleware and [keyfuncs.IP]. A request without an address,
// as on a unix socket, is refused with 400; keyfuncs.First(keyfuncs.RemoteIP, keyfuncs.AllClients) gives all of these
// one count.
//
// It panics on limits that [core.New] would refuse, and without limits.
func LimitByIP(limits ...core.Limit) func(http.Handler) http.Handler {
	return Middleware(guard.IPLimiter(limits))
}

package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// LimitByIP returns a middleware that limits each client IP (an IPv6 /64 is one client), with counts in memory, not
// shared between processes:
//
//	http.ListenAndServe(":8080", nethttp.LimitByIP(core.PerMinute(100))(mux))
//
// It is [Middleware] with [keyfuncs.RemoteIP] and a new limiter on a new memstore, without options. All limits hold. A
// refusal is a 429 with Retry-After. A response has X-RateLimit-* if the decision has a limit.
//
// Behind a proxy all clients have the proxy's address: use Middleware and [keyfuncs.IP]. A request without an address,
// as on a unix socket, is refused with 400; keyfuncs.First(keyfuncs.RemoteIP, keyfuncs.AllClients) gives all of these
// one count.
//
// It panics if limits is empty or invalid.
func LimitByIP(limits ...core.Limit) func(http.Handler) http.Handler {
	return Middleware(guard.ByIP(limits))
}

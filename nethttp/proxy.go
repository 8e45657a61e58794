package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// DropUpstreamLimits removes the limit fields of an upstream server's response,
// so that a reverse proxy behind a guard does not repeat them beside the
// guard's own:
//
//	proxy.ModifyResponse = nethttp.DropUpstreamLimits // of httputil.ReverseProxy
//
// It removes RateLimit, and all fields that begin with X-RateLimit- or RateLimit-.
// Retry-After stays: it belongs to the upstream's status. It never returns an
// error. An upstream's fields of other names are for a ModifyResponse that deletes
// the Names of their format, and then calls this.
//
// A ReverseProxy clears the response's header, the guard's fields included, after
// each interim response of the upstream. The usual one is 100 Continue; delete
// Expect from the outgoing request's header in Rewrite, and it does not come.
func DropUpstreamLimits(res *http.Response) error {
	guard.DropLimits(res.Header)
	return nil
}

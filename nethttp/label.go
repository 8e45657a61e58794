package nethttp

import (
	"net/http"
	"reflect"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithLabel sets the function that returns the Label of a request's event: the pattern of a route, never the path of a
// request, since each label is a time series of metrics. By default, and if the function returns "", the label is the
// pattern that the router has matched before the guard runs.
//
// The [Guard.Handler] of a ServeMux, and the adapters for chi, gin and echo, find the pattern without the option. It is
// for a ServeMux inside other handlers, and for other routers; docs/nethttp.md has a function. The function is called
// by many goroutines at once, and only if the limiter has an observer other than that of core.LogErrors, or with
// [WithLimiter].
func WithLabel(label func(*http.Request) string) Option {
	return withFunc("WithLabel", label, func(c *guard.Config) {
		c.Label = func(r *http.Request, _ any) string { return label(r) }
	})
}

// patternIn returns a function that returns the pattern of mux for a request, or "" if no route matches or mux
// redirects the request.
func patternIn(mux *http.ServeMux) func(*http.Request, any) string {
	return func(r *http.Request, _ any) string {
		h, pattern := mux.Handler(r)
		if reflect.TypeOf(h) == redirectHandlerType {
			return "" // ServeMux may return the client's own path as the pattern
		}
		return pattern
	}
}

var redirectHandlerType = reflect.TypeOf(http.RedirectHandler("/", http.StatusFound))

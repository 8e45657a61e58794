package nethttp

import (
	"net/http"
	"reflect"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithLabel sets the function that names the route of a request for the observer, as
// the Label of its event. Without it the label is what the router has matched before the
// guard runs. A guard whose [Guard.Handler] is given a ServeMux, and package sashchi, find
// the pattern by themselves. The option is for a ServeMux inside other handlers, and for
// other routers; docs/nethttp.md has a function.
//
// A label is one of few: the pattern of a route, never the path of a request. If the
// function returns "", the label is that without the option. The function is called by
// many goroutines at once, and only if the limiter has an observer other than that of
// core.LogErrors.
func WithLabel(label func(*http.Request) string) Option {
	return given("WithLabel", label, func(c *guard.Config) {
		c.Label = func(r *http.Request, _ any) string { return label(r) }
	})
}

// patternIn returns a function that looks up the pattern of the route by which mux is going to serve a request. It
// returns "" for a request that no route matches, and for one that mux redirects.
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

package nethttp

import (
	"net/http"
	"reflect"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithLabel sets the function that names the route of a request for the observer, as
// the Label of its event. Without it the label is what the router has matched before the
// guard runs. A guard whose [Guard.Handler] is given a ServeMux, and package sashchi, find
// the pattern by themselves. The option is for a ServeMux inside other handlers:
//
//	nethttp.Middleware(api, key, nethttp.WithLabel(nethttp.PatternIn(mux)))(logged(mux))
//
// A label is one of few: the pattern of a route, never the path of a request. If the
// function returns "", the label is that without the option. The function is called by
// many goroutines at once, and only if the limiter has an observer other than that of
// core.LogErrors.
func WithLabel(label func(*http.Request) string) Option {
	return given("WithLabel", label, func(c *guard.Config) { c.Label = label })
}

// PatternIn returns a function for [WithLabel] that looks up the pattern of the route by
// which mux is going to serve a request. It returns "" for a request that no route
// matches, and for one that mux redirects. It is nil, which WithLabel refuses, if mux is nil.
func PatternIn(mux *http.ServeMux) func(*http.Request) string {
	if mux == nil {
		return nil
	}
	return func(r *http.Request) string {
		h, pattern := mux.Handler(r)
		if reflect.TypeOf(h) == redirectHandlerType {
			return "" // ServeMux may return the client's own path as the pattern
		}
		return pattern
	}
}

var redirectHandlerType = reflect.TypeOf(http.RedirectHandler("/", http.StatusFound))

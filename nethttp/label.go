package nethttp

import (
	"errors"
	"net/http"
	"reflect"
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
	return func(c *config) error {
		if label == nil {
			return errors.New("sash: WithLabel(nil): " +
				"give a func(*http.Request) string, such as nethttp.PatternIn(mux)")
		}
		c.label = label
		return nil
	}
}

// PatternIn returns a function for [WithLabel] that looks up the pattern of the route by
// which mux is going to serve a request. It returns "" for a request that no route
// matches, and for one that mux redirects. PatternIn panics if mux is nil.
func PatternIn(mux *http.ServeMux) func(*http.Request) string {
	if mux == nil {
		panic("sash: PatternIn(nil): give the http.ServeMux that serves the requests")
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

// around returns the guard that labels requests by the patterns of next, if next is a
// ServeMux and no option says how to label, and g otherwise.
func (g *Guard) around(next http.Handler) *Guard {
	mux, ok := next.(*http.ServeMux)
	if !ok || g.label != nil {
		return g
	}
	d := *g.Decider
	d.label = PatternIn(mux)
	return &Guard{&d, g.key}
}

package adaptertest

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// Adapter describes an adapter and its framework. Only Build is required.
type Adapter struct {
	// Build returns a handler that serves a tree, as a program of the framework does. It is called for each server of a
	// subtest.
	Build func(Tree) http.Handler

	// WithRefusal is the adapter's own option for refusals, or nil. The option calls refuse with the framework's own
	// ResponseWriter, and returns its error to the framework. The error is nil if ErrorStatus is 0.
	WithRefusal func(refuse Refusal) nethttp.Option

	// ErrorStatus is the framework's status for an unknown error of a handler, such as 500. It is 0 if handlers return
	// no errors.
	ErrorStatus int

	// RootLabel, GroupLabel and RouteLabel are the labels of GET /api/items/{id} for an observer, from a guard at the
	// root, in the group "/api" and at the route. A label is a pattern, or empty if the framework finds the route after
	// the guard.
	RootLabel, GroupLabel, RouteLabel string
}

// Refusal answers a refused request.
type Refusal func(w http.ResponseWriter, r *http.Request, d core.Decision) error

// Tree describes a server: a root with one group of routes in it.
type Tree struct {
	Use    []Step // of the root; they run for each request, also where no route matches
	Prefix string // of the group's paths, such as "/api"; may be empty
	Group  []Step // of the group, behind Use
	Routes []Route
}

// Step is one middleware. If Spy is set, the middleware calls Spy and the next handler. Otherwise it is the adapter's
// Middleware of the other fields, which may be invalid.
type Step struct {
	Limiter *core.Limiter
	Key     keyfuncs.Func
	Options []nethttp.Option

	Spy func()
}

// Route is a route of the group. Its handler calls Handler and then returns Err, which is
// nil if handlers return no errors.
type Route struct {
	Method  string
	Pattern string // begins with a slash; a parameter is written {id}, and "/" matches no other path
	Steps   []Step // run behind the group's
	Handler http.HandlerFunc
	Err     error
}

// refusals returns the options that set the response to a refused request, by name.
func (adapter Adapter) refusals() map[string]func(Refusal) nethttp.Option {
	all := map[string]func(Refusal) nethttp.Option{
		"nethttp": func(refuse Refusal) nethttp.Option {
			return nethttp.WithRefusal(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
				_ = refuse(w, r, d)
			})
		},
	}
	if adapter.WithRefusal != nil {
		all["native"] = adapter.WithRefusal
	}
	return all
}

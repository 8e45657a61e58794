package adaptertest_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adaptertest"
)

// build returns a server of net/http that serves a tree.
func build(t adaptertest.Tree) http.Handler {
	mux := http.NewServeMux()
	for _, r := range t.Routes {
		pattern := r.Method + " " + t.Prefix + r.Pattern
		if r.Pattern == "/" {
			pattern += "{$}" // a ServeMux takes "/" for all paths
		}
		mux.Handle(pattern, rootTree(r.Handler, slices.Concat(t.Group, r.Steps)))
	}
	return rootTree(mux, t.Use)
}

// rootTree returns h behind the steps.
func rootTree(h http.Handler, steps []adaptertest.Step) http.Handler {
	for _, s := range slices.Backward(steps) {
		next := h
		if s.Spy == nil {
			h = nethttp.Middleware(s.Limiter, s.Key, s.Options...)(next)
			continue
		}
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Spy()
			next.ServeHTTP(w, r)
		})
	}
	return h
}

// plain describes the middleware of package nethttp.
var plain = adaptertest.Adapter{
	Build:      build,
	RootLabel:  "GET /api/items/{id}",
	GroupLabel: "GET /api/items/{id}",
	RouteLabel: "GET /api/items/{id}",
}

// The middleware of package nethttp is held against the suite like that of a framework.
func Example() {
	var t *testing.T // the argument of TestMiddleware
	adaptertest.Run(t, plain)
}

// TestExample runs what the example shows.
func TestExample(t *testing.T) { adaptertest.Run(t, plain) }

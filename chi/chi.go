// Package sashchi limits the requests of a [chi] router.
//
//	r := chi.NewRouter()
//	r.Use(sashchi.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	r.With(sashchi.Middleware(login, keyfuncs.RemoteIP)).Post("/login", loginHandler)
//
// Everything is decided by package nethttp, whose options all work here and
// whose package comment says what a client sees. This package adds the label
// for the observer: the whole pattern of the route, such as "/admin/users/{id}". In
// the Use of a router, which runs before routing, the pattern is looked up; where no
// route matches, it is the mount point ("/admin/*"), or nothing in the root router
// (inside an http.ServeMux the mux's own pattern).
//
// # Which path SkipPaths compares
//
// The request's, whole: chi does not change r.URL.Path on its way into a
// mounted router. So a router under r.Mount("/admin", ...) skips "/admin/health",
// not "/health". http.StripPrefix does change it, and a guard behind it compares
// what is left.
//
// # What is counted
//
// A guard in Use counts every request that reaches its router, also a request that
// ends as 404 or 405. One in r.With or r.Group counts the requests of its routes
// alone.
package sashchi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// Middleware returns a middleware for Use and With that asks limiter about each
// request, under the name that key gives to its client; see package keyfuncs. A
// refused request reaches neither the handler nor later middleware.
//
// It panics on wrong arguments: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...nethttp.Option) func(http.Handler) http.Handler {
	return nethttp.Middleware(limiter, key, append([]nethttp.Option{nethttp.WithLabel(pattern)}, opts...)...)
}

// pattern returns the pattern of the route that is going to serve the request, as far as
// it is known, or "" outside a chi router.
func pattern(r *http.Request) string {
	c := chi.RouteContext(r.Context())
	matched := c.RoutePattern()
	if c == nil || c.Routes == nil || matched != "" && !strings.HasSuffix(matched, "*") {
		return matched
	}
	method, path := cmp.Or(c.RouteMethod, r.Method), cmp.Or(r.URL.RawPath, r.URL.Path, "/")
	if matched == "" { // else RoutePath is the rest of the path
		path = cmp.Or(c.RoutePath, path)
	}
	whole := c.Routes.Find(chi.NewRouteContext(), method, path)
	if len(whole) > 1 {
		whole = strings.TrimSuffix(whole, "/")
	}
	return cmp.Or(whole, matched)
}

// Package sashchi limits the requests of a [chi] router.
//
//	r := chi.NewRouter()
//	r.Use(sashchi.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	r.With(sashchi.Middleware(login, keyfuncs.RemoteIP)).Post("/login", loginHandler)
//
// Everything is decided by package nethttp, whose options all work here and
// whose package comment says what a client sees. This package adds the label
// for the observer: the pattern of the route as far as chi has matched it. That
// is the whole pattern in r.With and r.Group, the mount point ("/admin/*") in
// the Use of a router that is mounted or given to r.Route, and nothing in the
// Use of the root router, which runs before routing.
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
	"net/http"

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
	if key == nil {
		panic("sash: the key function is nil: give one, such as keyfuncs.RemoteIP")
	}
	decider, err := nethttp.NewDecider(limiter, opts...)
	if err != nil {
		panic(err)
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("sash: the handler behind the limit is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Outside a chi router the context is nil and the pattern empty.
			pattern := chi.RouteContext(r.Context()).RoutePattern()
			if decider.Admit(w, r, pattern, func() (string, error) { return key(r) }) {
				next.ServeHTTP(w, r)
			}
		})
	}
}

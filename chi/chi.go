// Package sashchi limits the requests of a [chi] router.
// docs/frameworks.md shows a server.
//
//	r := chi.NewRouter()
//	r.Use(sashchi.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	r.With(sashchi.Middleware(login, keyfuncs.RemoteIP)).Post("/login", loginHandler)
//
// Package nethttp decides all requests. All of its options work here, and its package comment describes the responses.
// This package adds the label for the observer: the full pattern of the route, such as "/admin/users/{id}". In the Use
// of a router, which runs before routing, it looks up the pattern. If no route matches, the label is the mount point
// ("/admin/*"), and in the root router empty (inside an http.ServeMux the pattern of the mux).
//
// # The path of SkipPaths
//
// SkipPaths compares the full path of the request: chi does not change r.URL.Path for a mounted router. So a router
// under r.Mount("/admin", ...) skips "/admin/health", not "/health". Behind http.StripPrefix, a guard compares the rest
// of the path.
//
// # The requests that count
//
// A guard in Use counts every request that reaches its router, also one that ends as 404 or 405. A guard in r.With or
// r.Group counts the requests of its routes alone.
package sashchi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// Middleware returns a middleware for Use and With that limits requests by limiter, under the key that the function key
// returns; see package keyfuncs. A refused request reaches neither the handler nor later middleware.
//
// It panics on wrong arguments: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...nethttp.Option) func(http.Handler) http.Handler {
	return nethttp.Middleware(limiter, key, append([]nethttp.Option{nethttp.WithLabel(pattern)}, opts...)...)
}

// pattern returns the pattern of the request's route, as far as it is known, or "" outside a chi router.
func pattern(r *http.Request) string {
	c := chi.RouteContext(r.Context())
	matched := c.RoutePattern()
	if c == nil || c.Routes == nil || matched != "" && !strings.HasSuffix(matched, "*") {
		return matched
	}
	method, path := cmp.Or(c.RouteMethod, r.Method), cmp.Or(r.URL.RawPath, r.URL.Path, "/")
	if matched == "" { // otherwise RoutePath is the rest of the path
		path = cmp.Or(c.RoutePath, path)
	}
	full := c.Routes.Find(chi.NewRouteContext(), method, path)
	if len(full) > 1 {
		full = strings.TrimSuffix(full, "/")
	}
	return cmp.Or(full, matched)
}

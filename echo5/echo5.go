// Package sashecho5 limits the requests of an [echo] v5 server. For echo v4 there is package sashecho; a program may
// use both.
// docs/frameworks.md shows a server.
//
//	e := echo.New()
//	e.Use(sashecho5.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	e.POST("/login", loginHandler, sashecho5.Middleware(login, keyfuncs.RemoteIP))
//
// Package nethttp decides all requests. All of its options work here, and its package comment describes the responses.
// This package adds key functions and refusals with an *echo.Context, and the label for the observer: the route's
// pattern, c.Path(), which is empty in Pre and if no route matches. adapter.Skip, WithCost, WithLabel and WithLimiter
// are the options of nethttp with functions of an *echo.Context.
//
// # The requests that count
//
// A guard in Pre or Use counts every request, also one that ends as 404 or 405. A guard in a group counts the requests
// of the group's routes and, since echo registers routes for a group with middleware, requests under the group's prefix
// without a route, unless echo.Config.NoGroupAutoRegister404Routes is set. A guard at a route counts the requests of
// this route alone.
//
// # Health checks, and the path of SkipPaths
//
// A health check stands outside the guard's group or routes, or nethttp.SkipPaths excludes it. SkipPaths compares the
// full path of the request: echo does not change the path in groups. A guard in e.Group("/admin") skips
// "/admin/health", not "/health". Behind middleware that rewrites the path, or http.StripPrefix around the server, a
// guard compares the rewritten path. adapter.Skip can exclude other requests.
//
// echo's c.RealIP() is the address of the connection unless the server has an IPExtractor. The key functions of package
// keyfuncs do not use it.
package sashecho5

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapter"
)

// Middleware returns a middleware for Pre, Use, groups and routes that limits requests by limiter, under the key that
// the function key returns; see package keyfuncs. A refused request reaches neither the handler nor later middleware.
//
// It panics on wrong arguments: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...nethttp.Option) echo.MiddlewareFunc {
	return MiddlewareBy(limiter, framework.Key(key), opts...)
}

// LimitByIP is [nethttp.LimitByIP] for echo: it limits each client IP (an IPv6 /64 is one client), with counts in
// memory, not shared between processes.
func LimitByIP(limits ...core.Limit) echo.MiddlewareFunc { return Middleware(adapter.ByIP(limits)) }

// MiddlewareBy is [Middleware] with a key function of echo's context, such as for a value of earlier middleware or a
// parameter of the route. As in package keyfuncs, an error that matches keyfuncs.ErrNoKey, or an empty key, refuses the
// request with 400, a keyfuncs.UnauthenticatedError with 401, and any other error with 500.
func MiddlewareBy(limiter *core.Limiter, key func(*echo.Context) (string, error),
	opts ...nethttp.Option) echo.MiddlewareFunc {
	serve := core.Must(adapter.New(framework, limiter, key, opts...))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return serve(c, next) }
	}
}

// WithRefusal sets a function that answers a refused request in echo's own way, instead of nethttp.Refuse. If
// nethttp.WithRefusal is given too, the last option counts. The function writes the response, or returns an error for
// the server's HTTPErrorHandler, such as echo.NewHTTPError(nethttp.Status(d), "slow down"). If it does neither,
// nethttp.Refuse writes the response. A body without a status gets nethttp.Status(d). The limit fields, Retry-After and
// Cache-Control are set. d.Err may quote the client's input: log it, do not send it.
func WithRefusal(refuse func(c *echo.Context, d core.Decision) error) nethttp.Option {
	return adapter.WithRefusal(refuse)
}

var framework = adapter.Framework[*echo.Context]{
	Exchange: func(c *echo.Context) (http.ResponseWriter, *http.Request, string) {
		return c.Response(), c.Request(), c.Path()
	},
	SetRequest: (*echo.Context).SetRequest,
	SetWriter:  (*echo.Context).SetResponse,
	BeforeSend: func(c *echo.Context, settle func(status int)) {
		if response, err := echo.UnwrapResponse(c.Response()); err == nil {
			response.Before(func() { settle(response.Status) })
		}
	},
}

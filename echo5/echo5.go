// Package sashecho5 limits the requests of a server of [echo] v5. For echo v4 there
// is package sashecho; a program may use both.
//
//	e := echo.New()
//	e.Use(sashecho5.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	e.POST("/login", loginHandler, sashecho5.Middleware(login, keyfuncs.RemoteIP))
//
// Everything is decided by package nethttp, whose options all work here and
// whose package comment says what a client sees. This package adds key functions and
// refusals that take an *echo.Context, and the label for the observer: the route's
// pattern, c.Path(), which is empty in Pre and where no route matches. adapter.Skip,
// WithCost, WithLabel and WithLimiter are the options of nethttp with functions of an
// *echo.Context.
//
// # Where a guard stands, and what it counts
//
// A guard in Pre or Use counts every request, also a request that ends as 404 or
// 405. A guard in a group counts the requests of the group's routes and, since echo
// registers routes of its own for a group with middleware, the requests under the
// group's prefix for which there is no route; not so with
// echo.Config.NoGroupAutoRegister404Routes. A guard that is given to a route counts
// the requests of this route alone.
//
// # Health checks, and which path SkipPaths compares
//
// Either the guard stands in a group or at routes, and the health check outside; or
// nethttp.SkipPaths excludes it. SkipPaths compares the request's whole path: echo
// does not change the path in groups. A guard in e.Group("/admin") skips
// "/admin/health", not "/health". Middleware that rewrites the path, and
// http.StripPrefix around the server, do change it, and a guard behind them compares
// what is left. What a path cannot say, adapter.Skip can.
//
// echo's own c.RealIP() is the address of the connection unless the server has an
// IPExtractor; the key functions of package keyfuncs do not use it.
package sashecho5

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapter"
)

// Middleware returns a middleware for Pre, Use, groups and routes that asks
// limiter about each request, under the name that key gives to its client; see
// package keyfuncs. A refused request reaches neither the handler nor later
// middleware.
//
// It panics on wrong arguments: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...nethttp.Option) echo.MiddlewareFunc {
	return MiddlewareBy(limiter, framework.Key(key), opts...)
}

// LimitByIP is [nethttp.LimitByIP]: it limits each address, counted in this process.
func LimitByIP(limits ...core.Limit) echo.MiddlewareFunc {
	return Middleware(adapter.IPLimiter(limits))
}

// MiddlewareBy is [Middleware] with a key function that reads echo's context:
// what an earlier middleware has stored in it, or a parameter of the route. As
// in package keyfuncs, an error that matches keyfuncs.ErrNoKey, or an empty key,
// refuses the request with 400, a keyfuncs.UnauthenticatedError with 401, and any other
// error with 500.
func MiddlewareBy(limiter *core.Limiter, key func(*echo.Context) (string, error),
	opts ...nethttp.Option) echo.MiddlewareFunc {
	serve := core.Must(adapter.New(framework, limiter, key, opts...))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return serve(c, next) }
	}
}

// WithRefusal sets what answers a refused request, in echo's own way, instead of
// nethttp.Refuse; it goes before nethttp.WithRefusal. It writes the response, or
// returns an error for the server's HTTPErrorHandler, such as
// echo.NewHTTPError(nethttp.Status(d), "slow down"); if it does neither, the refusal is
// written as without it. A body without a status gets nethttp.Status(d). The
// limit fields, Retry-After and Cache-Control are set. d.Err may quote the
// client's input: log it, do not send it.
func WithRefusal(refuse func(c *echo.Context, d core.Decision) error) nethttp.Option {
	return adapter.WithRefusal(refuse)
}

var framework = adapter.Framework[*echo.Context]{
	Exchange: func(c *echo.Context) (http.ResponseWriter, *http.Request, string) {
		return c.Response(), c.Request(), c.Path()
	},
	SetRequest: (*echo.Context).SetRequest,
	SetWriter:  (*echo.Context).SetResponse,
	BeforeSend: func(c *echo.Context, then func(status int)) {
		if response, err := echo.UnwrapResponse(c.Response()); err == nil {
			response.Before(func() { then(response.Status) })
		}
	},
}

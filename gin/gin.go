// Package sashgin limits the requests of a [gin] engine.
// docs/frameworks.md shows a server.
//
//	r := gin.New()
//	r.Use(sashgin.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	r.POST("/login", sashgin.Middleware(login, keyfuncs.RemoteIP), loginHandler)
//
// Package nethttp decides all requests. All of its options work here, and its package comment describes the responses.
// This package adds key functions and refusals with a *gin.Context, and the label for the observer: the route's
// pattern, c.FullPath(), which is empty if no route matches. adapter.Skip, WithCost, WithLabel and WithLimiter are the
// options of nethttp with functions of a *gin.Context.
//
// # The path of SkipPaths
//
// SkipPaths compares the full path of the request: gin does not change c.Request.URL.Path in groups. A guard in
// r.Group("/admin") skips "/admin/health", not "/health". With http.StripPrefix around the engine, the guard compares
// the remainder of the path.
//
// # The requests that count
//
// A guard in the engine's Use counts every request, also one that ends as 404 or 405, except gin's redirects for a
// missing or extra slash (RedirectTrailingSlash, RedirectFixedPath). A guard in a group counts the requests of the
// group's routes alone. Use comes before the routes, since a route gets the middleware at its registration. A request
// that a handler gives to HandleContext is counted again; docs/frameworks.md shows how to skip it.
//
// gin's c.ClientIP() trusts the X-Forwarded-For of every client unless the engine has other trusted proxies. The key
// functions of package keyfuncs do not use it.
package sashgin

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapter"
)

// Middleware returns a handler for Use and for routes that limits requests by limiter, under the key that the function
// key returns; see package keyfuncs. A refused request is aborted: it reaches neither the handler nor later middleware.
//
// It panics on wrong arguments: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...nethttp.Option) gin.HandlerFunc {
	return MiddlewareBy(limiter, framework.Key(key), opts...)
}

// LimitByIP is [nethttp.LimitByIP] for gin: it limits each client IP (an IPv6 /64 is one client), with counts in
// memory, not shared between processes.
func LimitByIP(limits ...core.Limit) gin.HandlerFunc { return Middleware(adapter.ByIP(limits)) }

// MiddlewareBy is [Middleware] with a key function of gin's context, such as for a value of an earlier handler or a
// parameter of the route. As in package keyfuncs, an error that matches keyfuncs.ErrNoKey, or an empty key, refuses the
// request with 400, a keyfuncs.UnauthenticatedError with 401, and any other error with 500.
func MiddlewareBy(limiter *core.Limiter, key func(*gin.Context) (string, error),
	opts ...nethttp.Option) gin.HandlerFunc {
	serve := core.Must(adapter.New(framework, limiter, key, opts...))
	return func(c *gin.Context) { _ = serve(c, func(c *gin.Context) error { c.Next(); return nil }) }
}

// WithRefusal sets a function that answers a refused request in gin's own way, instead of nethttp.Refuse. If
// nethttp.WithRefusal is given too, the last option counts. The request is aborted already, the status is that of
// nethttp.Status(d) unless refuse writes another, and the limit fields, Retry-After and Cache-Control are set. If
// refuse writes no response, nethttp.Refuse does. d.Err may quote the client's input: log it, do not send it.
func WithRefusal(refuse func(c *gin.Context, d core.Decision)) nethttp.Option {
	if refuse == nil {
		return adapter.WithRefusal[*gin.Context](nil)
	}
	return adapter.WithRefusal(func(c *gin.Context, d core.Decision) error { refuse(c, d); return nil })
}

var framework = adapter.Framework[*gin.Context]{
	Exchange: func(c *gin.Context) (http.ResponseWriter, *http.Request, string) {
		return c.Writer, c.Request, c.FullPath()
	},
	SetRequest: func(c *gin.Context, r *http.Request) { c.Request = r },
	SetWriter:  setWriter, SetStatus: (*gin.Context).Status, Stop: (*gin.Context).Abort,
}

// setWriter sets w as the ResponseWriter of the handlers: gin's own again, or a recorder of package adapter.
func setWriter(c *gin.Context, w http.ResponseWriter) {
	if _, ok := w.(gin.ResponseWriter); !ok {
		w = &writer{c.Writer, w}
	}
	c.Writer = w.(gin.ResponseWriter)
}

// writer is gin's ResponseWriter, but a status and a Hijack go through the ResponseWriter of package adapter: gin takes
// an interim response, such as 103 Early Hints, for the final one, and does not report a Hijack.
type writer struct {
	gin.ResponseWriter
	recorder http.ResponseWriter
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) { w.recorder.WriteHeader(status) }

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.recorder).Hijack()
}

// Unwrap returns the ResponseWriter of package adapter, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.recorder }

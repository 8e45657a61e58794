// Package sashgin limits the requests of a [gin] engine.
//
//	r := gin.New()
//	r.Use(sashgin.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	r.POST("/login", sashgin.Middleware(login, keyfuncs.RemoteIP), loginHandler)
//
// Everything is decided by package nethttp, whose options all work here and
// whose package comment says what a client sees. This package adds key functions
// and refusals that take a *gin.Context, and the label for the observer: the
// route's pattern, c.FullPath(), which is empty where no route matches. adapter.Skip,
// WithCost, WithLabel and WithLimiter are the options of nethttp with functions of a
// *gin.Context.
//
// # Which path SkipPaths compares
//
// The request's, whole: gin does not change c.Request.URL.Path in groups. A
// guard in r.Group("/admin") skips "/admin/health", not "/health".
// http.StripPrefix around the engine does change it, and the guard compares what
// is left.
//
// # What is counted
//
// A guard in the engine's Use counts every request, also a request that ends as 404
// or 405, except the redirects that gin answers by itself for a path with or without
// a slash too many (RedirectTrailingSlash, RedirectFixedPath). One in a group
// counts the requests of the group's routes alone. Use comes before the routes:
// gin gives a route the middleware that is there when it is registered. A request that
// a handler gives to HandleContext is counted again; docs/frameworks.md shows how to skip it.
//
// gin's own c.ClientIP() believes the X-Forwarded-For of every client unless the engine
// is told otherwise; the key functions of package keyfuncs do not use it.
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

// Middleware returns a handler for Use and for routes that asks limiter about
// each request, under the name that key gives to its client; see package
// keyfuncs. A refused request is aborted: it reaches neither the handler nor
// later middleware.
//
// It panics on wrong arguments: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...nethttp.Option) gin.HandlerFunc {
	return MiddlewareBy(limiter, framework.Key(key), opts...)
}

// LimitByIP is [nethttp.LimitByIP]: it limits each address, counted in this process.
func LimitByIP(limits ...core.Limit) gin.HandlerFunc { return Middleware(adapter.IPLimiter(limits)) }

// MiddlewareBy is [Middleware] with a key function that reads gin's context:
// what an earlier handler has stored in it, or a parameter of the route. As in
// package keyfuncs, an error that matches keyfuncs.ErrNoKey, or an empty key,
// refuses the request with 400, a keyfuncs.UnauthenticatedError with 401, and any other
// error with 500.
func MiddlewareBy(limiter *core.Limiter, key func(*gin.Context) (string, error),
	opts ...nethttp.Option) gin.HandlerFunc {
	serve := core.Must(adapter.New(framework, limiter, key, opts...))
	return func(c *gin.Context) { _ = serve(c, func(c *gin.Context) error { c.Next(); return nil }) }
}

// WithRefusal sets what answers a refused request, in gin's own way, instead of
// nethttp.Refuse; it goes before nethttp.WithRefusal. The request is aborted
// already, the status is the one of nethttp.Status(d) unless refuse writes another,
// and the limit fields, Retry-After and Cache-Control are set. If refuse writes
// nothing, the refusal is written as without it. d.Err may quote the client's
// input: log it, do not send it.
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

func setWriter(c *gin.Context, w http.ResponseWriter) {
	if _, ok := w.(gin.ResponseWriter); !ok {
		w = &writer{c.Writer, w}
	}
	c.Writer = w.(gin.ResponseWriter)
}

// writer is gin's ResponseWriter, but for what the one of package adapter must see: gin would take an interim
// response, such as 103 Early Hints, for the final one, and does not tell of a Hijack.
type writer struct {
	gin.ResponseWriter
	outer http.ResponseWriter
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) { w.outer.WriteHeader(status) }

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.outer).Hijack()
}

// Unwrap returns the ResponseWriter inside, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.outer }

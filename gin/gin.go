// Package sashgin limits the requests of a [gin] engine.
//
//	r := gin.New()
//	r.Use(sashgin.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
//	r.POST("/login", sashgin.Middleware(login, keyfuncs.RemoteIP), loginHandler)
//
// Everything is decided by package nethttp, whose options all work here and
// whose package comment says what a client sees. This package adds key functions
// and refusals that take a *gin.Context, and the label for the observer: the
// route's pattern, c.FullPath(), which is empty where no route matches.
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
// gin gives a route the middleware that is there when it is registered.
//
// gin's own c.ClientIP() believes the X-Forwarded-For of every client unless the engine
// is told otherwise; the key functions of package keyfuncs do not use it.
package sashgin

import (
	"bufio"
	"errors"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// Middleware returns a handler for Use and for routes that asks limiter about
// each request, under the name that key gives to its client; see package
// keyfuncs. A refused request is aborted: it reaches neither the handler nor
// later middleware.
//
// It panics on wrong arguments: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...nethttp.Option) gin.HandlerFunc {
	nethttp.NeedKey(key)
	return MiddlewareBy(limiter, func(c *gin.Context) (string, error) { return key(c.Request) }, opts...)
}

// MiddlewareBy is [Middleware] with a key function that reads gin's context:
// what an earlier handler has stored in it, or a parameter of the route. As in
// package keyfuncs, an error that matches keyfuncs.ErrNoKey, or an empty key,
// refuses the request with 400, and any other error with 500.
func MiddlewareBy(limiter *core.Limiter, key func(*gin.Context) (string, error),
	opts ...nethttp.Option) gin.HandlerFunc {
	var own settings
	decider := nethttp.MustDeciderFor(&own, limiter, key, opts...)
	if own.refuse == nil && !decider.Follows() {
		return func(c *gin.Context) {
			if decider.Admit(c.Writer, c.Request, c.FullPath(), func() (string, error) { return key(c) }) {
				c.Next()
				decider.Done(c.Writer)
			} else {
				c.Abort()
			}
		}
	}
	return func(c *gin.Context) {
		d, admission := decider.Reserve(c.Writer, c.Request, c.FullPath(), func() (string, error) { return key(c) })
		if d.Allowed {
			follow(c, admission)
			decider.Done(c.Writer)
			return
		}
		c.Abort()
		if own.refuse == nil {
			decider.Refuse(c.Writer, c.Request, d)
			return
		}
		c.Status(nethttp.Status(d)) // the status is 200 otherwise, if own.refuse sets none
		c.Writer = &writer{ResponseWriter: c.Writer}
		own.refuse(c, d)
	}
}

// follow calls the handlers that come next, for options that need to know what they do.
func follow(c *gin.Context, admission *nethttp.Admission) {
	w := &writer{ResponseWriter: c.Writer}
	c.Writer, c.Request = w, admission.Request(c.Request)
	admission.Follow(c.Next, w)
}

// writer is the ResponseWriter for a refusal, and for handlers that an option looks at. It
// keeps the status when an interim response, such as 103 Early Hints, is written: gin would
// take the interim response for the final one. It implements nethttp.Response: what is
// missing here is gin's own.
type writer struct {
	gin.ResponseWriter
	hijacked bool
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if !nethttp.WriteInterim(w.ResponseWriter, status) {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// Hijacked reports whether a handler has taken over the connection.
func (w *writer) Hijacked() bool { return w.hijacked }

// Unwrap returns the ResponseWriter inside, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// settings are what the options of this package change.
type settings struct {
	refuse func(*gin.Context, core.Decision)
}

// WithRefusal sets what answers a refused request, in gin's own way, instead of
// nethttp.Refuse; it goes before nethttp.WithRefusal. The request is aborted
// already, the status is the one of nethttp.Status(d) unless refuse writes another,
// and the limit fields, Retry-After and Cache-Control are set. d.Err may quote the
// client's input: log it, do not send it.
func WithRefusal(refuse func(c *gin.Context, d core.Decision)) nethttp.Option {
	return nethttp.AdapterOption(func(own *settings) error {
		if refuse == nil {
			return errors.New("sash: sashgin.WithRefusal(nil): give a function or leave the option out")
		}
		own.refuse = refuse
		return nil
	})
}

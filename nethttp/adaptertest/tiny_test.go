package adaptertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapter"
)

// call is a request in a tiny framework whose handlers return errors.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	sent []func(status int) // called before an error is answered
}

type handler func(*call) error

// beforeSend has then called before an error is answered.
func (c *call) beforeSend(settle func(status int)) { c.sent = append(c.sent, settle) }

// ServeHTTP implements http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r}
	if err := h(c); err != nil {
		for _, settle := range c.sent {
			settle(http.StatusInternalServerError)
		}
		http.Error(w, "sorry", http.StatusInternalServerError)
	}
}

// maker is the Middleware of an adapter for the tiny framework.
type maker func(*core.Limiter, keyfuncs.Func, ...nethttp.Option) func(next handler) handler

// correct is the Middleware of an adapter without a mistake.
func correct(l *core.Limiter, key keyfuncs.Func, opts ...nethttp.Option) func(next handler) handler {
	serve := core.Must(adapter.New(framework, l, framework.Key(key), opts...))
	return func(next handler) handler {
		return func(c *call) error { return serve(c, next) }
	}
}

var framework = adapter.Framework[*call]{
	Exchange:   func(c *call) (http.ResponseWriter, *http.Request, string) { return c.w, c.r, c.r.Pattern },
	SetRequest: func(c *call, r *http.Request) { c.r = r },
	SetWriter:  func(c *call, w http.ResponseWriter) { c.w = w },
	BeforeSend: (*call).beforeSend,
}

// tiny describes the adapter with the Middleware m.
func tiny(m maker) Adapter {
	chain := func(h handler, steps ...Step) handler {
		for _, s := range slices.Backward(steps) {
			next := h
			if s.Spy == nil {
				h = m(s.Limiter, s.Key, s.Options...)(next)
				continue
			}
			h = func(c *call) error { s.Spy(); return next(c) }
		}
		return h
	}
	return Adapter{
		Build: func(t Tree) http.Handler {
			mux := http.NewServeMux()
			for _, route := range t.Routes {
				h := func(c *call) error { route.Handler(c.w, c.r); return route.Err }
				pattern := route.Method + " " + t.Prefix + route.Pattern
				if route.Pattern == "/" {
					pattern += "{$}"
				}
				mux.Handle(pattern, chain(h, slices.Concat(t.Group, route.Steps)...))
			}
			return chain(func(c *call) error { mux.ServeHTTP(c.w, c.r); return nil }, t.Use...)
		},
		WithRefusal: func(refuse Refusal) nethttp.Option {
			return adapter.WithRefusal(func(c *call, d core.Decision) error { return refuse(c.w, c.r, d) })
		},
		ErrorStatus: http.StatusInternalServerError,
		GroupLabel:  "GET /api/items/{id}", // at the root the label is empty
		RouteLabel:  "GET /api/items/{id}",
	}
}

// TestCorrect: an adapter without a mistake passes.
func TestCorrect(t *testing.T) { Run(t, tiny(correct)) }

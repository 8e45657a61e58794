package adaptertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// call is a request in a tiny framework whose handlers return errors.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	failed bool
}

type handler func(*call) error

// fail answers an error, once.
func (c *call) fail(error) {
	if !c.failed {
		c.failed = true
		http.Error(c.w, "sorry", http.StatusInternalServerError)
	}
}

// ServeHTTP implements http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r}
	if err := h(c); err != nil {
		c.fail(err)
	}
}

// maker is the Middleware of an adapter for the tiny framework.
type maker func(*core.Limiter, keyfuncs.Func, ...nethttp.Option) func(next handler) handler

// own are the settings of the adapters for the tiny framework.
type own struct{ refuse Refusal }

// right is the Middleware of an adapter as it should be.
func right(l *core.Limiter, key keyfuncs.Func, opts ...nethttp.Option) func(next handler) handler {
	return guard((*nethttp.Decider).Done, l, key, opts)
}

// guard is right, but for what is done after the handlers.
func guard(done func(*nethttp.Decider, http.ResponseWriter), l *core.Limiter, key keyfuncs.Func,
	opts []nethttp.Option) func(next handler) handler {
	var own own
	decider := nethttp.MustDeciderFor(&own, l, key, opts...)
	return func(next handler) handler {
		return func(c *call) error {
			d, admission := decider.Reserve(c.w, c.r, c.r.Pattern, func() (string, error) { return key(c.r) })
			if !d.Allowed {
				return own.answer(decider, c, d)
			}
			defer done(decider, c.w)
			return admission.Serve(c.w, c.r, func(w http.ResponseWriter, r *http.Request) error {
				c.w, c.r = w, r
				return next(c)
			}, c.fail)
		}
	}
}

// answer answers a refused request.
func (own *own) answer(decider *nethttp.Decider, c *call, d core.Decision) (err error) {
	w := &nethttp.RefusalWriter{ResponseWriter: c.w, Status: nethttp.Status(d)}
	if own.refuse != nil {
		c.w = w
		err = own.refuse(w, c.r, d)
	}
	if err == nil && !w.Begun() {
		decider.Refuse(w.ResponseWriter, c.r, d)
	}
	return err
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
			return nethttp.AdapterOption(func(own *own) error { own.refuse = refuse; return nil })
		},
		ErrorStatus: http.StatusInternalServerError,
		GroupLabel:  "GET /api/items/{id}", // at the root the label is empty
		RouteLabel:  "GET /api/items/{id}",
	}
}

// TestRight: an adapter as it should be passes.
func TestRight(t *testing.T) { Run(t, tiny(right)) }

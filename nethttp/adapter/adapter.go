// Package adapter is for adapters, which let a framework use sash in its own way: its context in key functions, its
// route patterns as labels, its errors as refusals. An adapter says what its framework can do, in a [Framework], and
// gets from [New] the one function that its middleware calls:
//
//	serve := core.Must(adapter.New(framework, limiter, key, opts...))
//	return func(next mill.Handler) mill.Handler {
//		return func(c *mill.Context) error { return serve(c, next) }
//	}
//
// [Skip], [WithCost], [WithLabel] and [WithLimiter] are for users of the adapters too: they are the options of package
// nethttp with functions of the framework's context, such as a *gin.Context or an echo.Context, and cost no allocation.
//
//	sashgin.Middleware(api, key, adapter.WithLimiter(func(c *gin.Context, key string) (*core.Limiter, error) {
//		return plans[c.GetString("team")], nil
//	}))
//
// Package adaptertest says how an adapter is written, and proves one.
package adapter

import (
	"context"
	"errors"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Framework has functions over the context C of a framework, a pointer or an interface. They are called by many
// goroutines at once.
type Framework[C any] struct {
	// Exchange returns the ResponseWriter, the request, and the pattern of its route, such as "/items/:id": never the
	// path, and "" where no route has matched.
	Exchange func(c C) (w http.ResponseWriter, r *http.Request, route string)

	// SetRequest and SetWriter put what the handlers are to get into the context. SetWriter is called again afterwards,
	// with the ResponseWriter that Exchange has returned.
	SetRequest func(c C, r *http.Request)
	SetWriter  func(c C, w http.ResponseWriter)

	// SetStatus sets the status of a body that is written without one, before the function of [WithRefusal] is called.
	// It is nil for a framework that leaves this to its ResponseWriter.
	SetStatus func(c C, status int)

	// BeforeSend has then called with the status of the response, just before the framework sends it. It is called
	// before a handler whose status an option looks at: what an error leads to is known when the error is answered. A
	// request stays counted if then is not called. BeforeSend is nil if handlers return no errors.
	BeforeSend func(c C, then func(status int))

	// Stop keeps the framework from calling the handlers that come after the middleware of a refused request. It is nil
	// for a framework that leaves the call to the middleware.
	Stop func(c C)
}

// Key returns a key function that reads the request in the context. It is nil if key is nil.
func (f Framework[C]) Key(key func(*http.Request) (string, error)) func(C) (string, error) {
	if key == nil {
		return nil
	}
	return func(c C) (string, error) {
		_, r, _ := f.Exchange(c)
		return key(r)
	}
}

// IPLimiter returns the limiter and the key function of nethttp.LimitByIP, for that of an adapter. It panics as that
// does.
func IPLimiter(limits []core.Limit) (*core.Limiter, func(*http.Request) (string, error)) {
	return guard.IPLimiter(limits)
}

// New returns a function for the middleware of f. It asks limiter about the request of c, under the name that key gives
// to its client. It calls next if the request is admitted, writes a response if it is refused, and returns the error of
// next or of the function of [WithRefusal]. An error of New says which argument is wrong and what to give instead.
func New[C any](f Framework[C], limiter *core.Limiter, key func(C) (string, error), opts ...nethttp.Option) (
	serve func(c C, next func(C) error) error, err error) {
	if f.Exchange == nil || f.SetRequest == nil || f.SetWriter == nil {
		return nil, errors.New("sash: the Framework lacks Exchange, SetRequest or SetWriter: give all three")
	}
	if key == nil {
		return nil, guard.ErrNoKeyFunction
	}
	a := &adapter[C]{framework: f, key: key}
	if a.guard, err = guard.New(limiter, &a.settings, opts); err != nil {
		return nil, err
	}
	return a.serve, nil
}

// adapter serves the requests of a framework.
type adapter[C any] struct {
	framework Framework[C]
	key       func(C) (string, error)
	settings  settings[C]
	guard     *guard.Guard
}

func (a *adapter[C]) serve(c C, next func(C) error) error {
	var beforeSend func(func(int))
	if a.framework.BeforeSend != nil {
		beforeSend = func(then func(int)) { a.framework.BeforeSend(c, then) }
	}
	v := guard.Visit{Context: c, HasHandler: true}
	v.W, v.R, v.Label = a.framework.Exchange(c)
	if !a.guard.Admit(&v, func() (string, error) { return a.key(c) }) {
		return a.refuse(c, &v)
	}
	return v.Serve(func(w http.ResponseWriter, r *http.Request) error {
		if r != v.R {
			a.framework.SetRequest(c, r)
		}
		if !v.HasRecorder() {
			return next(c)
		}
		a.framework.SetWriter(c, w)
		defer func() {
			// A handler that is late for echo's Timeout must not touch c: it may serve another request by now.
			if r.Context().Err() != context.DeadlineExceeded {
				a.framework.SetWriter(c, v.W)
			}
		}()
		return next(c)
	}, beforeSend)
}

// refuse answers a refused request.
func (a *adapter[C]) refuse(c C, v *guard.Visit) error {
	if a.framework.Stop != nil {
		a.framework.Stop(c)
	}
	if a.settings.refuse == nil {
		v.Refuse()
		return nil
	}
	return v.RefuseWith(func(w http.ResponseWriter, d core.Decision) error {
		if a.framework.SetStatus != nil {
			a.framework.SetStatus(c, guard.Status(d))
		}
		a.framework.SetWriter(c, w)
		defer a.framework.SetWriter(c, v.W) // after a panic too, so that a middleware outside can answer
		return a.settings.refuse(c, d)
	})
}

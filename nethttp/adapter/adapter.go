// Package adapter helps to write an adapter, which gives the context, the route patterns and the errors of a framework
// to sash: for key functions, labels and refusals. An adapter describes its framework in a [Framework], and gets from
// [New] the function that its middleware calls. Package adaptertest describes how to write an adapter, and tests one.
// The middleware of an invented framework, mill:
//
//	serve := core.Must(adapter.New(framework, limiter, key, opts...))
//	return func(next mill.Handler) mill.Handler {
//		return func(c *mill.Context) error { return serve(c, next) }
//	}
//
// [Skip], [WithCost], [WithLabel] and [WithLimiter] are for users of adapters too. They are the options of package
// nethttp with functions of the framework's context, such as a *gin.Context or an echo.Context, and allocate nothing.
//
//	sashgin.Middleware(api, key, adapter.WithLimiter(func(c *gin.Context, key string) (*core.Limiter, error) {
//		return plans[c.GetString("team")], nil
//	}))
package adapter

import (
	"context"
	"errors"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Framework has functions of a framework with the context C, a pointer or an interface. They are called by many
// goroutines at once.
type Framework[C any] struct {
	// Exchange returns the ResponseWriter, the request, and the pattern of its route, such as "/items/:id": never the
	// path, and "" where no route has matched.
	Exchange func(c C) (w http.ResponseWriter, r *http.Request, route string)

	// SetRequest and SetWriter set the request and the ResponseWriter of the handlers in the context. After the
	// handlers, SetWriter is called with the ResponseWriter of Exchange.
	SetRequest func(c C, r *http.Request)
	SetWriter  func(c C, w http.ResponseWriter)

	// SetStatus sets the default status of the response, before the function of [WithRefusal] is called. It is nil if
	// the framework's ResponseWriter has no such status.
	SetStatus func(c C, status int)

	// BeforeSend registers settle, which the framework calls with the status of the response just before it sends it.
	// It is called before the handler if an option needs the status, since an error of the handler gets its status from
	// the framework. A request stays counted if settle is not called. BeforeSend is nil if handlers return no errors.
	BeforeSend func(c C, settle func(status int))

	// Stop makes the framework skip the handlers after the middleware of a refused request. It is nil if the middleware
	// calls the next handler itself.
	Stop func(c C)
}

// Key returns a key function for the context's request. It is nil if key is nil.
func (f Framework[C]) Key(key func(*http.Request) (string, error)) func(C) (string, error) {
	if key == nil {
		return nil
	}
	return func(c C) (string, error) {
		_, r, _ := f.Exchange(c)
		return key(r)
	}
}

// ByIP returns the limiter and the key function of nethttp.LimitByIP, for the LimitByIP of an adapter. It panics
// if limits is empty or invalid.
func ByIP(limits []core.Limit) (*core.Limiter, func(*http.Request) (string, error)) {
	return guard.ByIP(limits)
}

// New returns a function for the middleware of f. It limits the request of c by limiter, under the key that the
// function key returns. It calls next if the request is admitted, writes a response if it is refused, and returns the
// error of next or of the function of [WithRefusal]. An error of New names the wrong argument and the right form of it.
func New[C any](f Framework[C], limiter *core.Limiter, key func(C) (string, error), opts ...nethttp.Option) (
	serve func(c C, next func(C) error) error, err error) {
	if f.Exchange == nil || f.SetRequest == nil || f.SetWriter == nil {
		return nil, errors.New("sash: the Framework lacks Exchange, SetRequest or SetWriter: give all three")
	}
	if key == nil {
		return nil, guard.ErrNoKeyFunction
	}
	a := &adapter[C]{framework: f, key: key}
	if a.guard, err = guard.New(limiter, &a.framework, opts); err != nil {
		return nil, err
	}
	return a.serve, nil
}

// adapter serves the requests of a framework.
type adapter[C any] struct {
	framework Framework[C]
	key       func(C) (string, error)
	guard     *guard.Guard
}

func (a *adapter[C]) serve(c C, next func(C) error) error {
	var beforeSend func(func(int))
	if a.framework.BeforeSend != nil {
		beforeSend = func(settle func(int)) { a.framework.BeforeSend(c, settle) }
	}
	v := guard.Visit{Context: c, HasHandler: true}
	v.W, v.R, v.Label = a.framework.Exchange(c)
	if !a.guard.Admit(&v, func() (string, error) { return a.key(c) }) {
		if a.framework.Stop != nil {
			a.framework.Stop(c)
		}
		return v.Refuse()
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
			// After echo's Timeout, c may serve another request already.
			if r.Context().Err() != context.DeadlineExceeded {
				a.framework.SetWriter(c, v.W)
			}
		}()
		return next(c)
	}, beforeSend)
}

package adapter

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// settings are set by the options of this package.
type settings[C any] struct{ refuse func(C, core.Decision) error }

// WithRefusal sets what answers a refused request in the framework's own way, instead of nethttp.Refuse; it goes before
// nethttp.WithRefusal. If refuse neither begins a response nor returns an error, the refusal is written as without it.
// The limit fields, Retry-After and Cache-Control are set.
func WithRefusal[C any](refuse func(c C, d core.Decision) error) nethttp.Option {
	return option("WithRefusal", refuse == nil, func(_ *guard.Config, s *settings[C]) {
		s.refuse = refuse
	})
}

// Skip is nethttp.Skip with a function of the framework's context.
func Skip[C any](skip func(c C) bool) nethttp.Option {
	return option("Skip", skip == nil, func(g *guard.Config, _ *settings[C]) {
		g.Skip = append(g.Skip, func(_ *http.Request, c any) bool { return skip(c.(C)) })
	})
}

// WithCost is nethttp.WithCost with a function of the framework's context.
func WithCost[C any](cost func(c C) int) nethttp.Option {
	return option("WithCost", cost == nil, func(g *guard.Config, _ *settings[C]) {
		g.Cost = func(_ *http.Request, c any) int { return cost(c.(C)) }
	})
}

// WithLabel is nethttp.WithLabel with a function of the framework's context.
func WithLabel[C any](label func(c C) string) nethttp.Option {
	return option("WithLabel", label == nil, func(g *guard.Config, _ *settings[C]) {
		g.Label = func(_ *http.Request, c any) string { return label(c.(C)) }
	})
}

// WithLimiter is nethttp.WithLimiter with a function of the framework's context.
func WithLimiter[C any](limiter func(c C, key string) (*core.Limiter, error)) nethttp.Option {
	return option("WithLimiter", limiter == nil, func(g *guard.Config, _ *settings[C]) {
		g.Limiter = func(_ *http.Request, c any, key string) (*core.Limiter, error) { return limiter(c.(C), key) }
	})
}

// option returns an option of an adapter with contexts of type C. Given to anything else it is an error of
// construction.
func option[C any](name string, isNil bool, set func(*guard.Config, *settings[C])) nethttp.Option {
	return settingOf{apply: func(c *guard.Config) error {
		context := reflect.TypeFor[C]()
		if isNil {
			return fmt.Errorf("sash: %s(nil) for %v: give a function, or leave the option out", name, context)
		}
		s, ok := c.Adapter.(*settings[C])
		if !ok {
			return fmt.Errorf("sash: %s for %v works in the Middleware of that framework alone: "+
				"leave it out here, or take the option of package nethttp", name, context)
		}
		set(c, s)
		return nil
	}}
}

// settingOf is an option. The Option inside is nil: it has the method that an option needs.
type settingOf struct {
	nethttp.Option
	apply func(*guard.Config) error
}

// Apply is for package guard.
func (s settingOf) Apply(c *guard.Config) error { return s.apply(c) }

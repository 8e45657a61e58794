package adapter

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// WithRefusal sets a function that answers a refused request in the framework's own way, instead of nethttp.Refuse. If
// nethttp.WithRefusal is given too, the last option counts. If refuse returns nil without a response, nethttp.Refuse
// writes it. The limit fields, Retry-After and Cache-Control are set.
func WithRefusal[C any](refuse func(c C, d core.Decision) error) nethttp.Option {
	return option("WithRefusal", refuse == nil, func(g *guard.Config, f *Framework[C]) {
		g.Refusal = func(w http.ResponseWriter, _ *http.Request, context any, d core.Decision) error {
			c := context.(C)
			if f.SetStatus != nil {
				f.SetStatus(c, guard.Status(d))
			}
			own, _, _ := f.Exchange(c)
			f.SetWriter(c, w)
			defer f.SetWriter(c, own) // after a panic too, so that outer middleware can answer
			return refuse(c, d)
		}
	})
}

// Skip is nethttp.Skip with a function of the framework's context.
func Skip[C any](skip func(c C) bool) nethttp.Option {
	return option("Skip", skip == nil, func(g *guard.Config, _ *Framework[C]) {
		g.Skip = append(g.Skip, func(_ *http.Request, c any) bool { return skip(c.(C)) })
	})
}

// WithCost is nethttp.WithCost with a function of the framework's context.
func WithCost[C any](cost func(c C) int) nethttp.Option {
	return option("WithCost", cost == nil, func(g *guard.Config, _ *Framework[C]) {
		g.Cost = func(_ *http.Request, c any) int { return cost(c.(C)) }
	})
}

// WithLabel is nethttp.WithLabel with a function of the framework's context.
func WithLabel[C any](label func(c C) string) nethttp.Option {
	return option("WithLabel", label == nil, func(g *guard.Config, _ *Framework[C]) {
		g.Label = func(_ *http.Request, c any) string { return label(c.(C)) }
	})
}

// WithLimiter is nethttp.WithLimiter with a function of the framework's context.
func WithLimiter[C any](limiter func(c C, key string) (*core.Limiter, error)) nethttp.Option {
	return option("WithLimiter", limiter == nil, func(g *guard.Config, _ *Framework[C]) {
		g.Limiter = func(_ *http.Request, c any, key string) (*core.Limiter, error) { return limiter(c.(C), key) }
	})
}

// option returns an option for adapters with contexts of type C. Elsewhere it is an error of construction.
func option[C any](name string, isNil bool, set func(*guard.Config, *Framework[C])) nethttp.Option {
	return adapterOption{apply: func(c *guard.Config) error {
		context := reflect.TypeFor[C]()
		if isNil {
			return fmt.Errorf("sash: %s(nil) for %v: give a function, or leave the option out", name, context)
		}
		f, ok := c.Adapter.(*Framework[C])
		if !ok {
			return fmt.Errorf("sash: %s for %v works in the Middleware of that framework alone: "+
				"leave it out here, or take the option of package nethttp", name, context)
		}
		set(c, f)
		return nil
	}}
}

// adapterOption is an option. It embeds a nil Option for its unexported method.
type adapterOption struct {
	nethttp.Option
	apply func(*guard.Config) error
}

// Apply is for package guard.
func (o adapterOption) Apply(c *guard.Config) error { return o.apply(c) }

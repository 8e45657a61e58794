package adapter

import (
	"fmt"
	"reflect"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// settings are set by the options of this package.
type settings[C any] struct {
	refuse func(C, core.Decision) error
	skip   func(C) bool
}

// WithRefusal sets what answers a refused request in the framework's own way, instead of nethttp.Refuse; it goes before
// nethttp.WithRefusal. If refuse neither begins a response nor returns an error, the refusal is written as without it.
// The limit fields, Retry-After and Cache-Control are set.
func WithRefusal[C any](refuse func(c C, d core.Decision) error) nethttp.Option {
	return option("WithRefusal", refuse == nil, func(s *settings[C]) { s.refuse = refuse })
}

// WithSkipper excludes the requests for which skip returns true: they touch no store and get no fields. Several
// of them, and nethttp's Skip and SkipPaths, add up.
func WithSkipper[C any](skip func(c C) bool) nethttp.Option {
	return option("WithSkipper", skip == nil, func(s *settings[C]) {
		before := s.skip
		s.skip = func(c C) bool { return before != nil && before(c) || skip(c) }
	})
}

// option returns an option of an adapter with contexts of type C. Given to anything else it is an error of
// construction.
func option[C any](name string, isNil bool, set func(*settings[C])) nethttp.Option {
	return settingOf{apply: func(c *guard.Config) error {
		context := reflect.TypeFor[C]()
		if isNil {
			return fmt.Errorf("sash: %s(nil) for %v: give a function, or leave the option out", name, context)
		}
		s, ok := c.Adapter.(*settings[C])
		if !ok {
			return fmt.Errorf("sash: %s for %v works in the Middleware of that framework alone: "+
				"leave it out here, or see nethttp.Skip and nethttp.WithRefusal", name, context)
		}
		set(s)
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

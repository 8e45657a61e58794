package nethttp

import (
	"fmt"
	"strings"

	"github.com/sashlimit/sash/core"
)

// NewDeciderFor is [NewDecider] for an adapter that has options of its own
// beside the options of this package: the options that the adapter makes with
// [AdapterOption] change settings. S is a type that only the adapter has.
func NewDeciderFor[S any](settings *S, limiter *core.Limiter, opts ...Option) (*Decider, error) {
	return newDecider(settings, limiter, opts)
}

// MustDeciderFor is NewDeciderFor for the Middleware of an adapter: it panics where
// NewDeciderFor returns an error, and if key is nil.
func MustDeciderFor[S, C any](settings *S, limiter *core.Limiter,
	key func(C) (string, error), opts ...Option) *Decider {
	NeedKey(key)
	d, err := NewDeciderFor(settings, limiter, opts...)
	if err != nil {
		panic(err)
	}
	return d
}

// NeedKey panics if the key function of an adapter is nil. C is the request or the
// framework's own context.
func NeedKey[C any](key func(C) (string, error)) {
	if key == nil {
		panic(errNoKeyFunction)
	}
}

// AdapterOption returns an option of the adapter whose settings are an S. Given
// to anything else it is an error of construction.
func AdapterOption[S any](set func(*S) error) Option {
	return func(c *config) error {
		settings, ok := c.settings.(*S)
		if !ok {
			adapter, _, _ := strings.Cut(fmt.Sprintf("%T", *new(S)), ".")
			return fmt.Errorf("sash: an option of package %s works in that package's Middleware alone: "+
				"leave it out here, or see nethttp.Skip and nethttp.WithRefusal", adapter)
		}
		return set(settings)
	}
}

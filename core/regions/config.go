package regions

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// Config says which regions there are. It is the same in all of them but for Here.
type Config struct {
	// Here is the name of the region in which this process runs.
	Here string

	// Stores holds the store of each region by its name, such as a redisstore each. All
	// processes give the same names: the shares depend on their order. 1 to 64 regions.
	Stores map[string]core.Store

	// Strict chooses the mode that never admits too many; see the package. All processes
	// choose the same.
	Strict bool

	// Home gives all of a client's limits to the region that it returns, instead of a share
	// to each. "" means that the client has none. It must return the same in every
	// process. It may be nil.
	Home func(client string) string
}

const maxRegions = 64

// check returns an error that says what is wrong with the Config.
func (c *Config) check() error {
	const example = `such as map[string]core.Store{"eu": eu, "us": us}`
	if n := len(c.Stores); n < 1 || n > maxRegions {
		return fmt.Errorf("sash: regions.Config.Stores has %d regions: give 1 to %d, %s", n, maxRegions, example)
	}
	names := slices.Sorted(maps.Keys(c.Stores))
	for i, name := range names {
		store := c.Stores[name]
		switch {
		case name == "" || len(name) > 64:
			return fmt.Errorf("sash: regions.Config.Stores has the name %.66q: give 1 to 64 bytes, %s", name, example)
		case errs.IsNil(store):
			return fmt.Errorf("sash: the store of region %q is %s: give a store, %s", name, errs.NilName(store), example)
		}
		for _, other := range names[:i] {
			if reflect.ValueOf(store).Comparable() && store == c.Stores[other] {
				return fmt.Errorf("sash: regions %q and %q have the same store: give each its own", other, name)
			}
		}
	}
	if !c.Strict {
		return errors.New("sash: regions.Config.Strict is false: there is no other mode yet: give true")
	}
	if _, ok := c.Stores[c.Here]; !ok {
		return fmt.Errorf("sash: regions.Config.Here is %q: give one of the names in Stores: %q", c.Here, names)
	}
	return nil
}

// Store is a [core.Store] over those of the regions, made by [New]. It is safe for concurrent
// use.
type Store struct {
	config  Config
	regions []*region // by name
	here    int       // the index of this process' region
}

// region is a region as this process sees it.
type region struct {
	name  string
	store core.Store
}

// New returns a store over those of c. It asks none of them.
func New(c Config) (*Store, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Store{config: c}
	for _, name := range slices.Sorted(maps.Keys(c.Stores)) {
		if name == c.Here {
			s.here = len(s.regions)
		}
		s.regions = append(s.regions, &region{name: name, store: c.Stores[name]})
	}
	return s, nil
}

var errUnmade = errors.New("sash: the *regions.Store was not made by regions.New: make it with that")

// Bind implements [core.Store].
func (s *Store) Bind(binding core.Binding) (core.Ledger, error) {
	if s == nil || s.regions == nil {
		return nil, errUnmade
	}
	if len(s.regions) == 1 {
		return s.regions[0].store.Bind(binding)
	}
	r, err := s.newRule(binding)
	if err != nil {
		return nil, err
	}
	return &strict{r}, nil
}

package regions

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	// choose the same. Decision.Remaining is then that of the share that has decided: it can rise again
	// when the next region is asked.
	Strict bool

	// Every is how often a client that goes on asking here is looked at in the other regions,
	// unless Strict: 20 ms to 10 s. The default is 200 ms.
	Every time.Duration

	// Clients is the number of busy clients at most that are looked at, unless Strict; further ones have
	// the share of this region. The default is 65,536: some 12 MB with three regions.
	Clients int

	// Home gives all of a client's limits to the region that it returns, instead of a share
	// to each. "" means that the client has none. It must return the same in every
	// process. It may be nil.
	Home func(client string) string
}

const (
	maxRegions     = 64
	minEvery       = 20 * time.Millisecond
	defaultEvery   = 200 * time.Millisecond
	maxEvery       = 10 * time.Second
	defaultClients = 1 << 16
)

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
			return fmt.Errorf("sash: the store of region %q is %s: give one, %s", name, errs.NilName(store), example)
		}
		for _, other := range names[:i] {
			if reflect.ValueOf(store).Comparable() && store == c.Stores[other] {
				return fmt.Errorf("sash: regions %q and %q have the same store: give each its own", other, name)
			}
		}
	}
	if _, ok := c.Stores[c.Here]; !ok {
		return fmt.Errorf("sash: regions.Config.Here is %q: give one of the names in Stores: %q", c.Here, names)
	}
	switch {
	case c.Strict && (c.Every != 0 || c.Clients != 0):
		return errors.New("sash: regions.Config has Strict and Every or Clients: strict regions are not looked at")
	case c.Every != 0 && (c.Every < minEvery || c.Every > maxEvery):
		return fmt.Errorf("sash: regions.Config.Every is %v: give %v to %v, or 0", c.Every, minEvery, maxEvery)
	case c.Clients < 0:
		return fmt.Errorf("sash: regions.Config.Clients is %d: give 1 or more, or 0 for %d", c.Clients, defaultClients)
	}
	return nil
}

// Store is a [core.Store] over those of the regions, made by [New]. It is safe for concurrent
// use.
type Store struct {
	config  Config
	regions []*region // by name
	here    int       // the index of this process' region
	epoch   time.Time // just before the store was made
	table   *table    // nil if strict
	clock   clock     // of this region's store

	shortest atomic.Int64 // Config.Timeout of the limiters; 0 if there is none
	begun    sync.Once    // the names were compared with those of other processes
}

// now returns the time since the epoch, which is never 0.
func (s *Store) now() time.Duration { return time.Since(s.epoch) }

// New returns a store over those of c. It asks none of them.
func New(c Config) (*Store, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Store{config: c, epoch: time.Now().Add(-time.Nanosecond)}
	if !c.Strict {
		s.table = newTable(cmp.Or(c.Clients, defaultClients), cmp.Or(c.Every, defaultEvery))
	}
	names := slices.Sorted(maps.Keys(c.Stores))
	s.here = slices.Index(names, c.Here)
	for _, name := range names {
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
	if t := int64(binding.Timeout); t > 0 && (s.shortest.Load() == 0 || t < s.shortest.Load()) {
		s.shortest.Store(t) // limiters are made one after the other
	}
	r, err := s.newRule(binding)
	if err != nil {
		return nil, err
	}
	if s.config.Strict {
		return &strict{r}, nil
	}
	return &eventual{r, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}, nil
}

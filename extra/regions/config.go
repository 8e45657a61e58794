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

// Config names the regions. Only Here differs between them.
type Config struct {
	// Here is the name of the region in which this process runs.
	Here string

	// Stores holds the store of each region by its name, such as a redisstore each. All
	// processes give the same names: the shares depend on their order. 1 to 64 regions.
	Stores map[string]core.Store

	// Strict chooses the mode that never admits too many; see the package. All processes
	// choose the same. Decision.Remaining then counts the share of one region: it can rise again
	// when the next region is asked. Rules with a [core.Bucket] are always decided so: regions that look at each other
	// would each refill it.
	Strict bool

	// LookEvery is the least time between two looks at a busy client in the other regions: 20 ms to 10 s. The
	// default is 200 ms. Not with Strict.
	LookEvery time.Duration

	// MaxClients bounds how many busy clients are looked at; further ones get this region's share. The default
	// is 65,536: some 12 MB with three regions. Not with Strict.
	MaxClients int

	// Home gives all of a client's limits to the region that it returns, instead of a share
	// to each. A client for which it returns "" has no home. It must return the same in every
	// process. It may be nil. As long as this region's own store has not answered yet, the At of a refusal
	// of a client with another home is by the clock of this process.
	Home func(client string) string
}

const (
	maxRegions        = 64
	minLookEvery      = 20 * time.Millisecond
	defaultLookEvery  = 200 * time.Millisecond
	maxLookEvery      = 10 * time.Second
	defaultMaxClients = 1 << 16
)

// check returns an error if New cannot use the Config.
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
	case c.Strict && (c.LookEvery != 0 || c.MaxClients != 0):
		return errors.New("sash: regions.Config has Strict and LookEvery or MaxClients: " +
			"give these without Strict, which takes no looks")
	case c.LookEvery != 0 && (c.LookEvery < minLookEvery || c.LookEvery > maxLookEvery):
		return fmt.Errorf("sash: regions.Config.LookEvery is %v: give %v to %v, or 0",
			c.LookEvery, minLookEvery, maxLookEvery)
	case c.MaxClients < 0:
		return fmt.Errorf("sash: regions.Config.MaxClients is %d: give 1 or more, or 0 for %d",
			c.MaxClients, defaultMaxClients)
	}
	return nil
}

// Store is a [core.Store] over the stores of the regions, made by [New]. It is safe for concurrent
// use.
type Store struct {
	config  Config
	regions []*region // by name
	here    int       // the index of this process' region
	epoch   time.Time // just before the store was made
	table   *table    // nil if strict
	clock   clock     // of this region's store

	shortest atomic.Int64 // the shortest Config.Timeout of the limiters; 0 if there is none
	begun    sync.Once    // the names were compared with the names of other processes
}

// now returns the time since the epoch, which is never 0.
func (s *Store) now() time.Duration { return time.Since(s.epoch) }

// New returns a store over the stores of c. It asks none of them.
func New(c Config) (*Store, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Store{config: c, epoch: time.Now().Add(-time.Nanosecond)}
	if !c.Strict {
		s.table = newTable(cmp.Or(c.MaxClients, defaultMaxClients), cmp.Or(c.LookEvery, defaultLookEvery))
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
	even := slices.ContainsFunc(binding.Limits, func(l core.Limit) bool { return l.Algorithm.Linear() })
	if s.config.Strict || even {
		return &strict{r}, nil
	}
	return &eventual{r, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}, nil
}

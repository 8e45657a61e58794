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

// Config configures a [Store]. Only Local differs between the regions.
type Config struct {
	// Local is the name of the region in which this process runs.
	Local string

	// Stores holds the store of each region by its name, such as a redisstore each. All processes must use the same
	// names, because the shares depend on their order. 1 to 64 regions.
	Stores map[string]core.Store

	// Strict selects the mode that never admits more than the limit; see the package. All processes must use the same
	// mode. Decision.Remaining is then of one region's share: it can rise when the request goes to the next region.
	// Rules with a [core.Bucket] are always strict: polling regions would each refill it.
	Strict bool

	// PollInterval is the shortest time between two polls of the other regions for a busy client: 20 ms to 10 s. The
	// default is 200 ms. It is not used with Strict.
	PollInterval time.Duration

	// MaxClients is the largest number of busy clients to poll for; further clients get this region's share. The
	// default is 65,536: some 12 MB with three regions. It is not used with Strict.
	MaxClients int

	// Home returns the name of the region that enforces a client's whole limits, or "" if all regions have a share. It
	// must return the same name in every process. It may be nil. Until this region's store has answered, the At of a
	// refusal of a client with another home is by the clock of this process.
	Home func(client string) string
}

const (
	maxRegions          = 64
	minPollInterval     = 20 * time.Millisecond
	defaultPollInterval = 200 * time.Millisecond
	maxPollInterval     = 10 * time.Second
	defaultMaxClients   = 1 << 16
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
	if _, ok := c.Stores[c.Local]; !ok {
		return fmt.Errorf("sash: regions.Config.Local is %q: give one of the names in Stores: %q", c.Local, names)
	}
	switch {
	case c.Strict && (c.PollInterval != 0 || c.MaxClients != 0):
		return errors.New("sash: regions.Config has Strict and PollInterval or MaxClients: " +
			"give these without Strict, which does not poll")
	case c.PollInterval != 0 && (c.PollInterval < minPollInterval || c.PollInterval > maxPollInterval):
		return fmt.Errorf("sash: regions.Config.PollInterval is %v: give %v to %v, or 0",
			c.PollInterval, minPollInterval, maxPollInterval)
	case c.MaxClients < 0:
		return fmt.Errorf("sash: regions.Config.MaxClients is %d: give 1 or more, or 0 for %d",
			c.MaxClients, defaultMaxClients)
	}
	return nil
}

// Store is a [core.Store] that uses the stores of several regions. [New] returns one. It is safe for concurrent use.
type Store struct {
	config  Config
	regions []*region // by name
	local   int       // index of this process's region
	epoch   time.Time // just before New
	table   *table    // nil if strict
	clock   clock     // of this region's store

	shortest atomic.Int64 // the shortest Config.Timeout of the limiters; 0 if there is none
	checked  sync.Once    // for checkOnce
}

// now returns the time since the epoch, which is never 0.
func (s *Store) now() time.Duration { return time.Since(s.epoch) }

// New returns a store for the regions of c. It sends no request.
func New(c Config) (*Store, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Store{config: c, epoch: time.Now().Add(-time.Nanosecond)}
	if !c.Strict {
		s.table = newTable(cmp.Or(c.MaxClients, defaultMaxClients), cmp.Or(c.PollInterval, defaultPollInterval))
	}
	names := slices.Sorted(maps.Keys(c.Stores))
	s.local = slices.Index(names, c.Local)
	for _, name := range names {
		s.regions = append(s.regions, &region{name: name, store: c.Stores[name]})
	}
	return s, nil
}

var errZeroStore = errors.New("sash: the *regions.Store was not made by regions.New: make it with that")

// Bind implements [core.Store].
func (s *Store) Bind(binding core.Binding) (core.Ledger, error) {
	if s == nil || s.regions == nil {
		return nil, errZeroStore
	}
	if len(s.regions) == 1 {
		return s.regions[0].store.Bind(binding)
	}
	if t := int64(binding.Timeout); t > 0 && (s.shortest.Load() == 0 || t < s.shortest.Load()) {
		s.shortest.Store(t) // Bind is not called concurrently
	}
	r, err := s.newRule(binding)
	if err != nil {
		return nil, err
	}
	hasBucket := slices.ContainsFunc(binding.Limits, func(l core.Limit) bool { return l.Algorithm.IsLinear() })
	if s.config.Strict || hasBucket {
		return &strict{r}, nil
	}
	return &eventual{r, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}, nil
}

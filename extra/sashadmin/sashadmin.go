package sashadmin

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/heavyhitters"
)

// Config configures a [Handler].
type Config struct {
	// Limiters are shown, looked up and reset in this order: the limiters of
	// core.New and the rules of Limiter.Rule. At least one, and no two of one name and rule.
	Limiters []*core.Limiter

	// Heaviest, if not nil, provides the heaviest clients. It must be an observer of the limiters.
	Heaviest *heavyhitters.Clients

	// Failures, if not nil, provides the failures of stores. It must be an observer of the limiters.
	Failures *Failures

	// Refusals, if not nil, provides the refusals of the last hour. It must be an observer of the limiters.
	Refusals *Refusals

	// Stores holds functions that return the state of a store, such as the Stats of a memstore or of a redisstore, by a
	// name to show. The state is shown as JSON. The functions must be safe for concurrent use.
	Stores map[string]func() any
}

// Handler shows limits and resets clients. It is safe for concurrent use. [New] makes one.
//
// MOUNT IT BEHIND YOUR OWN AUTHENTICATION: the Handler has none. See the documentation of
// the package.
type Handler struct {
	config      Config
	stores      []string // the names of Config.Stores, sorted
	crossOrigin *http.CrossOriginProtection
	start       time.Time
}

// New returns a handler for c, or an error if c is invalid.
func New(c Config) (*Handler, error) {
	if len(c.Limiters) == 0 {
		return nil, errors.New("sash: sashadmin: Config.Limiters is empty: give the limiters to show")
	}
	seen := map[ruleID]bool{}
	for i, l := range c.Limiters {
		if l == nil || l.Policy() == nil {
			return nil, fmt.Errorf("sash: sashadmin: limiter %d of Config.Limiters is nil or zero: "+
				"leave it out, or make it with core.New or Limiter.Rule", i+1)
		}
		n := ruleID{l.Name(), l.RuleName()}
		if seen[n] {
			return nil, fmt.Errorf("sash: sashadmin: Config.Limiters has %v twice: give each once, "+
				"and limiters of other counts other names", l)
		}
		seen[n] = true
	}
	for name, state := range c.Stores {
		if name == "" || state == nil {
			return nil, fmt.Errorf("sash: sashadmin: Config.Stores has no function or no name at %q: "+
				"give both, or leave it out", name)
		}
	}
	c.Limiters, c.Stores = slices.Clone(c.Limiters), maps.Clone(c.Stores)
	return &Handler{c, slices.Sorted(maps.Keys(c.Stores)), http.NewCrossOriginProtection(), time.Now()}, nil
}

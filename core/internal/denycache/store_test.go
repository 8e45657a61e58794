package denycache_test

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/denycache"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// stack is a store behind a cache of refusals.
type stack struct {
	core.Store
	cache *denycache.Cache
}

func (s stack) Bind(rule core.Binding) (core.Ledger, error) {
	next, err := s.Store.Bind(rule)
	return s.cache.Wrap(rule, next), err
}

// TestConformance: the cache conforms to core.Store.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store { return stack{memstore.New(), denycache.New()} })
}

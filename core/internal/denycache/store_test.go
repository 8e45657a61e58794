package denycache_test

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/denycache"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// stack is a store with refusals remembered in front of it.
type stack struct {
	core.Store
	refusals *denycache.Refusals
}

func (s stack) Bind(rule core.Binding) (core.Ledger, error) {
	next, err := s.Store.Bind(rule)
	return s.refusals.Wrap(rule, next), err
}

// TestConformance: the link is a store.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store { return stack{memstore.New(), denycache.New()} })
}

package lease_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/denycache"
	"github.com/sashlimit/sash/core/internal/lease"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// stack is a store with leases in front of it, and a cache of refusals between the two.
type stack struct {
	core.Store
	refusals *denycache.Cache
	leases   *lease.Table
}

func (s stack) Bind(rule core.Binding) (core.Ledger, error) {
	next, err := s.Store.Bind(rule)
	return s.leases.Wrap(s.refusals.Wrap(rule, next), rule.Limits), err
}

// TestConformance: the links are a store. Three subtests are run without leases: they demand the exact number or moment
// of rules that are leased, where a lease may refuse early and is counted at its end. They would also see that a
// memstore counts at once what is taken ahead.
func TestConformance(t *testing.T) {
	exact := []string{"Histories", "Concurrency", "Extremes"}
	storetest.Run(t, func(t *testing.T) core.Store {
		if _, name, _ := strings.Cut(t.Name(), "/"); slices.Contains(exact, name) {
			return memstore.New()
		}
		return stack{memstore.New(), denycache.New(), lease.NewTable(lease.Terms{Size: 1000, Lifetime: time.Minute})}
	})
}

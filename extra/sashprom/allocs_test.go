package sashprom_test

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashprom"
)

// TestNoAllocation: no decision allocates, whatever is counted or measured of it.
func TestNoAllocation(t *testing.T) {
	for name, e := range map[string]core.Event{
		"counted": decided(core.SourceCounted, true, nil),
		"refused": decided(core.SourceCounted, false, nil),
		"failed":  decided(core.SourcePolicy, true, core.ErrUnavailable),
	} {
		for _, m := range []*sashprom.Metrics{core.Must(sashprom.New()), core.Must(sashprom.New(sashprom.ByRoute()))} {
			observer := m.For("redis")
			if n := testing.AllocsPerRun(1000, func() { observer.Observe(t.Context(), e) }); n != 0 {
				t.Errorf("%s: %v allocations, want none", name, n)
			}
		}
	}
}

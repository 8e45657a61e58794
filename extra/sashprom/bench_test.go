package sashprom_test

import (
	"context"
	"testing"
	"time"

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

// BenchmarkObserve is the observer alone, in one goroutine and in as many as there are
// processors.
func BenchmarkObserve(b *testing.B) {
	e := core.Event{Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: true, Source: core.SourceCounted}, Elapsed: 200 * time.Nanosecond}
	m := core.Must(sashprom.New()).For("memory")
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			m.Observe(b.Context(), e)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				m.Observe(context.Background(), e)
			}
		})
	})
}

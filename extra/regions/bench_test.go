package regions

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// BenchmarkRegions measures a decision in the own region on a busy client that is far from its limit.
func BenchmarkRegions(b *testing.B) {
	for name, c := range map[string]Config{
		"eventual": {Stores: three()},
		"strict":   {Stores: three(), Strict: true},
		"without":  {Stores: map[string]core.Store{"ap": memstore.New()}},
	} {
		b.Run(name, func(b *testing.B) {
			c.Local = "ap"
			limit := core.PerDay(core.MaxLogRequests)
			l := core.Must(core.New(core.Config{
				Store: newStore(b, c), Limits: []core.Limit{limit}, Observer: core.Silent,
			}))
			for range 100 {
				l.AllowN(b.Context(), "k", limit.Requests/2000) // a twentieth: it is polled
			}
			b.ReportAllocs()
			for b.Loop() {
				l.Allow(b.Context(), "k")
			}
		})
	}
}

package regions

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// BenchmarkRegions measures a decision in the own region, and the memory that 65,536 busy clients take.
func BenchmarkRegions(b *testing.B) {
	b.Run("quiet", func(b *testing.B) { benchDecide(b, Config{Here: "ap", Stores: three()}) })
	b.Run("strict", func(b *testing.B) { benchDecide(b, Config{Here: "ap", Stores: three(), Strict: true}) })
	b.Run("without", func(b *testing.B) {
		benchDecide(b, Config{Here: "ap", Stores: map[string]core.Store{"ap": memstore.New()}})
	})
	silent := three()
	for _, name := range []string{"eu", "us"} {
		silent[name] = storetest.Wrap(silent[name], func(ctx context.Context, c storetest.Call) (core.Decision, error) {
			<-ctx.Done()
			return core.Decision{}, context.Cause(ctx)
		})
	}
	b.Run("two silent", func(b *testing.B) { benchDecide(b, Config{Here: "ap", Stores: silent}) })
	b.Run("memory", benchMemory)
}

// benchDecide tells the median and the 99th percentile of decisions on a busy client that is far from its limit.
func benchDecide(b *testing.B, c Config) {
	limit := core.PerDay(core.MaxLogRequests)
	l := core.Must(core.New(core.Config{Store: newStore(b, c), Limits: []core.Limit{limit}, Observer: core.Silent}))
	for range 100 {
		l.AllowN(b.Context(), "k", limit.Requests/2000) // a twentieth: it is looked at
	}
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		l.Allow(b.Context(), "k")
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

func benchMemory(b *testing.B) {
	for b.Loop() {
		s := newStore(b, Config{Here: "ap", Stores: three()})
		counts, err := s.Bind(core.Binding{Limits: []core.Limit{core.PerHour(100).Named("limit")}})
		if err != nil {
			b.Fatal(err)
		}
		e := counts.(*eventual)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s.table.mu.Lock()
		for i := range defaultMaxClients {
			s.table.add(e.holder(fmt.Sprint("client ", i)), e.rule, 1)
		}
		s.table.mu.Unlock()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		runtime.KeepAlive(s)
	}
}

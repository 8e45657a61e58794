package redisstore_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// BenchmarkFromMemory decides without Redis: from a refusal that is remembered, or from a lease. Once a second a
// request asks Redis about the refusal, and some renew the lease: asked/op is how many.
func BenchmarkFromMemory(b *testing.B) {
	for name, bench := range map[string]struct {
		limit   core.Limit
		options []redisstore.Option
	}{
		"remembered":        {core.PerHour(1), nil},
		"remembered beside": {core.PerHour(20), []redisstore.Option{redisstore.WithLease(100, time.Minute)}},
		"leased": {
			core.PerHour(core.MaxLogRequests),
			[]redisstore.Option{redisstore.WithLease(core.MaxLogRequests, time.Minute)},
		},
	} {
		b.Run(name, func(b *testing.B) {
			store := redisstore.New(redistest.Start(b).Client(b), bench.options...)
			c, err := store.Bind(core.Rule{Limits: []core.Limit{bench.limit}})
			if err != nil {
				b.Fatal(err)
			}
			ask := core.Ask{Key: "ip:198.51.100.7", Cost: 1, Timeout: patient}
			for range min(bench.limit.Requests, 1000) {
				if _, err := c.Take(ctx, ask); err != nil {
					b.Fatal(err)
				}
			}
			asked := 0
			b.ReportAllocs()
			for b.Loop() {
				d, err := c.Take(ctx, ask)
				if err != nil {
					b.Fatal(err)
				}
				if d.Source == core.Counted {
					asked++
				}
			}
			b.ReportMetric(float64(asked)/float64(b.N), "asked/op")
		})
	}
}

package sashprom_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashprom"
)

func ExampleNew() {
	store := memstore.New()
	metrics := core.Must(sashprom.New())
	if err := metrics.Watch("memory", store); err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	_ = promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // mount it at /metrics

	limiter := core.Must(core.New(core.Config{
		Name:   "api",
		Store:  store,
		Limits: []core.Limit{core.PerMinute(2)},
		// The second observer writes the lines that a limiter without an observer writes.
		Observer: core.Observers(metrics.For("memory"), core.LogErrors(slog.Default(), time.Minute)),
	}))
	for range 5 {
		limiter.Allow(context.Background(), "user:42")
	}

	for _, family := range core.Must(registry.Gather()) {
		for _, m := range family.Metric {
			if n := m.GetCounter().GetValue(); n > 0 {
				fmt.Println(family.GetName(), m.GetLabel()[2].GetValue(), n)
			}
		}
	}
	// Output:
	// sash_decisions_total refused 3
	// sash_decisions_total admitted 2
}

package sashprom_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
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
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	_ = promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // mount it at /metrics

	limiter, err := core.New(core.Config{
		Name:   "api",
		Store:  store,
		Limits: []core.Limit{core.PerMinute(2)},
		// The second observer writes the lines that a limiter without an observer writes.
		Observer: core.Observers(metrics.For("memory"), core.LogErrors(slog.Default(), time.Minute)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for range 5 {
		limiter.Allow(context.Background(), "user:42")
	}

	families, err := registry.Gather()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if n := m.GetCounter().GetValue(); n > 0 {
				fmt.Print(family.GetName())
				for _, l := range m.GetLabel() {
					fmt.Printf(" %s=%q", l.GetName(), l.GetValue())
				}
				fmt.Println("", n)
			}
		}
	}
	// Output:
	// sash_decisions_total allowed="false" limiter="api" outcome="refused" rule="" 3
	// sash_decisions_total allowed="true" limiter="api" outcome="admitted" rule="" 2
}

package sashotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashotel"
)

func ExampleNew() {
	// A server sends them to a collector: with a PeriodicReader around an exporter such as otlpmetrichttp.
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))

	telemetry := core.Must(sashotel.New(sashotel.WithMeterProvider(meters)))
	store := memstore.New()
	if err := telemetry.Watch("memory", store); err != nil {
		panic(err)
	}
	limiter := core.Must(core.New(core.Config{
		Name:   "api",
		Store:  store,
		Limits: []core.Limit{core.PerMinute(2)},
		// The second observer writes the lines that a limiter without an observer writes.
		Observer: core.Observers(telemetry.For("memory"), core.LogErrors(slog.Default(), time.Minute)),
	}))

	ctx := context.Background() // if otelhttp has begun a span in it, each decision is an event of the span
	for range 5 {
		limiter.Allow(ctx, "user:42")
	}

	var found metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &found); err != nil {
		panic(err)
	}
	for _, m := range found.ScopeMetrics[0].Metrics {
		if m.Name == "sash.store.slots" {
			fmt.Println(m.Name, m.Data.(metricdata.Sum[float64]).DataPoints[0].Value)
		}
	}
	// Output:
	// sash.store.slots 1
}

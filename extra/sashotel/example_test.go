package sashotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashotel"
)

func ExampleNew() {
	// A server sends both to a collector: with a PeriodicReader and a batcher around
	// exporters such as otlpmetrichttp and otlptracehttp.
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))

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

	ctx, span := tracers.Tracer("example").Start(context.Background(), "GET /") // as otelhttp does
	for range 5 {
		limiter.Allow(ctx, "user:42")
	}
	span.End()

	var found metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &found); err != nil {
		panic(err)
	}
	for _, m := range found.ScopeMetrics[0].Metrics {
		if m.Name == "sash.store.slots" {
			fmt.Println(m.Name, m.Data.(metricdata.Sum[float64]).DataPoints[0].Value)
		}
	}
	first := spans.Ended()[0].Events()[0]
	for _, a := range first.Attributes {
		if a.Key == "sash.outcome" {
			fmt.Println(first.Name, a.Key, a.Value.String())
		}
	}
	// Output:
	// sash.store.slots 1
	// sash.decision sash.outcome admitted
}

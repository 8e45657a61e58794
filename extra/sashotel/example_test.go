package sashotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
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

	telemetry, err := sashotel.New(sashotel.WithMeterProvider(meters))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	store := memstore.New()
	if err := telemetry.Watch("memory", store); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	limiter, err := core.New(core.Config{
		Name:   "api",
		Store:  store,
		Limits: []core.Limit{core.PerMinute(2)},
		// The second observer writes the lines that a limiter without an observer writes.
		Observer: core.Observers(telemetry.For("memory"), core.LogErrors(slog.Default(), time.Minute)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	ctx, span := tracers.Tracer("example").Start(context.Background(), "GET /") // as otelhttp does
	for range 5 {
		limiter.Allow(ctx, "user:42")
	}
	span.End()

	var found metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, m := range found.ScopeMetrics[0].Metrics {
		sum, ok := m.Data.(metricdata.Sum[float64])
		if !ok || m.Name != "sash.decisions" && m.Name != "sash.store.slots" {
			continue
		}
		for _, p := range sum.DataPoints {
			if p.Value > 0 {
				fmt.Println(m.Name, p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value)
			}
		}
	}
	first := spans.Ended()[0].Events()[0]
	for _, a := range first.Attributes {
		if a.Key == "sash.outcome" || a.Key == "sash.remaining" {
			fmt.Println(first.Name, a.Key, a.Value.String())
		}
	}
	// Unordered output:
	// sash.decisions sash.allowed=true,sash.limiter=api,sash.outcome=admitted,sash.rule= 2
	// sash.decisions sash.allowed=false,sash.limiter=api,sash.outcome=refused,sash.rule= 3
	// sash.store.slots sash.store=memory 1
	// sash.decision sash.outcome admitted
	// sash.decision sash.remaining 1
}

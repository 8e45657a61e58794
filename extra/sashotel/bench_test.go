package sashotel_test

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashotel"
)

// unsampled returns a context with a span that does not record.
func unsampled(tb testing.TB) context.Context {
	tb.Helper()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, span := provider.Tracer("test").Start(tb.Context(), "request")
	tb.Cleanup(func() { span.End() })
	return ctx
}

// TestNoAllocation: in a span that does not record, no decision allocates, whatever is
// counted or measured of it.
func TestNoAllocation(t *testing.T) {
	ctx := unsampled(t)
	for name, e := range map[string]core.Event{
		"counted": decided(core.SourceCounted, true, nil),
		"refused": decided(core.SourceCounted, false, nil),
		"failed":  decided(core.SourcePolicy, true, core.ErrUnavailable),
	} {
		for _, w := range []watcher{watch(t), watch(t, sashotel.ByRoute())} {
			observer := w.For("redis")
			if n := testing.AllocsPerRun(1000, func() { observer.Observe(ctx, e) }); n != 0 {
				t.Errorf("%s: %v allocations, want none", name, n)
			}
		}
	}
}

// BenchmarkObserve is the observer alone: with a duration to record, without, and on a
// span that records.
func BenchmarkObserve(b *testing.B) {
	recording, span := sdktrace.NewTracerProvider().Tracer("test").Start(b.Context(), "request")
	defer span.End()
	e := core.Event{Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: true, Source: core.SourceCounted}}
	timed := e
	timed.Elapsed = 200 * time.Nanosecond
	observer := watch(b).For("memory")
	for _, c := range []struct {
		name  string
		ctx   context.Context
		event core.Event
	}{{"not timed", b.Context(), e}, {"timed", b.Context(), timed}, {"recording span", recording, timed}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				observer.Observe(c.ctx, c.event)
			}
		})
	}
}

package sashotel_test

import (
	"context"
	"testing"

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

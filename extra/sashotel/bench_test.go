package sashotel_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashotel"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// sink is a response that goes nowhere.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// guarded returns a function that sends a request through the middleware with a store
// in memory. Every request is admitted, or else all but the first are refused.
func guarded(ctx context.Context, tb testing.TB, observer core.Observer, admit bool) func() {
	tb.Helper()
	limit := core.Per(core.MaxLogRequests, core.MinWindow)
	if !admit {
		limit = core.PerHour(1)
	}
	limiter, err := core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{limit}, Observer: observer,
	})
	if err != nil {
		tb.Fatal(err)
	}
	h := nethttp.Middleware(limiter, keyfuncs.RemoteIP)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:4711"
	w := sink{http.Header{}}
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// unsampled returns a context with a span that does not record.
func unsampled(tb testing.TB) context.Context {
	tb.Helper()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, span := provider.Tracer("test").Start(tb.Context(), "request")
	tb.Cleanup(func() { span.End() })
	return ctx
}

var loads = []struct {
	name  string
	admit bool
}{{"admitted", true}, {"refused", false}}

// TestNoAllocation: a request with the metrics, in a span that does not record, allocates
// as often as one without.
func TestNoAllocation(t *testing.T) {
	ctx := unsampled(t)
	for _, load := range loads {
		t.Run(load.name, func(t *testing.T) {
			plain := testing.AllocsPerRun(1000, guarded(ctx, t, core.Silent, load.admit))
			for name, w := range map[string]watcher{"by rule": watch(t), "by route": watch(t, sashotel.ByRoute())} {
				if got := testing.AllocsPerRun(1000, guarded(ctx, t, w.For("memory"), load.admit)); got != plain {
					t.Errorf("%s: %v allocations a request, want %v as without metrics", name, got, plain)
				}
			}
		})
	}
}

// TestNoAllocationOfFailures: nor does the record of a duration or of an error allocate.
func TestNoAllocationOfFailures(t *testing.T) {
	ctx := unsampled(t)
	for name, e := range map[string]core.Event{
		"counted": decided(core.SourceCounted, true, nil),
		"failed":  decided(core.SourcePolicy, true, core.ErrUnavailable),
	} {
		observer := watch(t, sashotel.ByRoute()).For("redis")
		if n := testing.AllocsPerRun(1000, func() { observer.Observe(ctx, e) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
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

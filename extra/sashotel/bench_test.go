package sashotel_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
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
		"counted": decided(core.Counted, true, nil),
		"failed":  decided(core.FromPolicy, true, core.ErrUnavailable),
	} {
		observer := watch(t, sashotel.ByRoute()).For("redis")
		if n := testing.AllocsPerRun(1000, func() { observer.Observe(ctx, e) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

// BenchmarkMiddleware compares requests without an observer to requests with one that does
// nothing, which shows the cost of the event, and to requests with the metrics. The two
// take turns, 2,000 requests each, so that what else the machine does hits both alike.
// "times" is the median of the one by the median of the other.
func BenchmarkMiddleware(b *testing.B) {
	nothing := core.ObserverFunc(func(context.Context, core.Event) {})
	for _, load := range loads {
		for _, c := range []struct {
			name     string
			observer core.Observer
			ctx      context.Context
		}{
			{"event", nothing, b.Context()},
			{"metrics", watch(b).For("memory"), b.Context()},
			{"metrics by route", watch(b, sashotel.ByRoute()).For("memory"), b.Context()},
			{"metrics and span not recording", watch(b).For("memory"), unsampled(b)},
		} {
			b.Run(load.name+"/"+c.name, func(b *testing.B) {
				compare(b, guarded(c.ctx, b, core.Silent, load.admit), guarded(c.ctx, b, c.observer, load.admit))
			})
		}
	}
}

// compare reports how many times as long as plain the function observed takes.
func compare(b *testing.B, plain, observed func()) {
	const turn = 2000
	var without, with []time.Duration
	took := func(do func()) time.Duration {
		start := time.Now()
		for range turn {
			do()
		}
		return time.Since(start)
	}
	took(plain)
	took(observed)
	for b.Loop() {
		without = append(without, took(plain))
		with = append(with, took(observed))
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2]) / turn
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(without), "plain-ns")
	b.ReportMetric(median(with), "observed-ns")
	b.ReportMetric(median(with)/median(without), "times")
}

// BenchmarkObserve is the observer alone: with a duration to record, without, and on a
// span that records. The last line is an addition to a counter of the SDK, which
// package sashotel does without.
func BenchmarkObserve(b *testing.B) {
	recording, span := sdktrace.NewTracerProvider().Tracer("test").Start(b.Context(), "request")
	defer span.End()
	e := core.Event{Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: true, Source: core.Counted}}
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
	b.Run("counter of the SDK", func(b *testing.B) {
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		counter, err := provider.Meter("test").Int64Counter("decisions")
		if err != nil {
			b.Fatal(err)
		}
		set := metric.WithAttributeSet(attribute.NewSet(
			attribute.String("sash.limiter", "api"), attribute.String("sash.rule", "login"),
			attribute.String("sash.outcome", "admitted"), attribute.Bool("sash.allowed", true)))
		options := []metric.AddOption{set}
		for b.Loop() {
			counter.Add(b.Context(), 1, options...)
		}
	})
}

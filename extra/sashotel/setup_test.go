package sashotel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashotel"
)

// TestConcurrent: limiters decide while two readers read, and nothing is lost.
func TestConcurrent(t *testing.T) {
	const goroutines, each = 8, 500
	w := watch(t, sashotel.ByRoute())
	limiter, err := core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(each)}, Observer: w.For("memory"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				label := fmt.Sprintf("GET /%d", (g+i)%150)
				limiter.Decide(context.Background(), core.Request{Key: "user:1", Cost: 1, Label: label})
				if i%50 == 0 {
					name := fmt.Sprintf("store %d %d", g, i)
					w.For(name)
					if err := w.Watch(name, memstore.New(memstore.WithMaxBytes(1<<20))); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 2 {
		group.Go(func() {
			for range 10 {
				w.metrics(t)
			}
		})
	}
	group.Wait()
	total := map[string]float64{}
	for attributes, n := range w.points(t, "sash.decisions") {
		_, rest, _ := strings.Cut(attributes, "sash.outcome=")
		outcome, _, _ := strings.Cut(rest, " ")
		total[outcome] += n
	}
	if total["admitted"] != each || total["refused"] != (goroutines-1)*each {
		t.Errorf("counted %v, want %d admitted and %d refused", total, each, (goroutines-1)*each)
	}
}

// TestClose: after Close, the counts are reported no more.
func TestClose(t *testing.T) {
	w := watch(t)
	w.Observe(t.Context(), decided(core.Counted, true, nil))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Observe(t.Context(), decided(core.Counted, true, nil))
	if got := w.points(t, "sash.decisions"); len(got) != 0 {
		t.Errorf("after Close: %v, want nothing", got)
	}
}

// TestGlobalProvider: without an option, the metrics go to the global provider, although
// the program sets it later.
func TestGlobalProvider(t *testing.T) {
	before := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	telemetry, err := sashotel.New()
	if err != nil {
		t.Fatal(err)
	}
	telemetry.Observe(t.Context(), decided(core.Counted, true, nil))
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	telemetry.Observe(t.Context(), decided(core.Counted, true, nil))
	found := read(t, reader)
	if got := happened(pointsOf(t, found["sash.decisions"])); len(got) != 1 {
		t.Errorf("decisions %v, want those of one rule", got)
	}
	if got := pointsOf(t, found["sash.decision.duration"]); len(got) != 1 {
		t.Errorf("durations %v, want those of one store", got)
	}
}

// refusing is a provider whose meters make no counter.
type refusing struct{ noop.MeterProvider }

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

type refusingMeter struct{ noop.Meter }

func (refusingMeter) Float64ObservableCounter(
	string, ...metric.Float64ObservableCounterOption,
) (metric.Float64ObservableCounter, error) {
	return noop.Float64ObservableCounter{}, errors.New("no such luck")
}

// TestMisuse: what the program gives wrong is said when it starts.
func TestMisuse(t *testing.T) {
	for name, test := range map[string]struct {
		option sashotel.Option
		want   string
	}{
		"nil option":   {nil, "sash: option 1 of sashotel.New is nil"},
		"nil provider": {sashotel.WithMeterProvider(nil), "sash: sashotel.WithMeterProvider(nil)"},
		"refusal": {sashotel.WithMeterProvider(refusing{}),
			"sash: sashotel.New: the provider refuses an instrument: no such luck"},
	} {
		if _, err := sashotel.New(test.option); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
}

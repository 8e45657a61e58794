package sashotel_test

import (
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashotel"
)

// TestGlobalProvider: without an option, the metrics go to the global provider, although the program sets it later.
// After Close, the counts are reported no more.
func TestGlobalProvider(t *testing.T) {
	before := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	telemetry := core.Must(sashotel.New())
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	telemetry.Observe(t.Context(), decided(core.SourceCounted, true, nil))
	found := read(t, reader)
	if len(found["sash.decisions"].happened()) != 1 || len(found["sash.decision.duration"].points) != 1 {
		t.Errorf("%v, want the decisions of one rule and the durations of one store", found)
	}
	if err := telemetry.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, reader)["sash.decisions"]; len(got.points) != 0 {
		t.Errorf("after Close: %v, want nothing", got)
	}
}

// refusing is a provider whose meters make no counter.
type refusing struct{ noop.MeterProvider }

func (refusing) Meter(string, ...otelmetric.MeterOption) otelmetric.Meter { return refusingMeter{} }

type refusingMeter struct{ noop.Meter }

func (refusingMeter) Float64ObservableCounter(
	string, ...otelmetric.Float64ObservableCounterOption,
) (otelmetric.Float64ObservableCounter, error) {
	return noop.Float64ObservableCounter{}, errors.New("no such luck")
}

// TestMisuse: what the program gives wrong is said when it starts.
func TestMisuse(t *testing.T) {
	for want, option := range map[string]sashotel.Option{
		"sash: option 1 of sashotel.New is nil":                                nil,
		"sash: sashotel.WithMeterProvider(nil)":                                sashotel.WithMeterProvider(nil),
		"sash: sashotel.New: the provider refuses an instrument: no such luck": sashotel.WithMeterProvider(refusing{}),
	} {
		if _, err := sashotel.New(option); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

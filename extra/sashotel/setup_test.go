package sashotel_test

import (
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashotel"
)

// TestClose: after Close, the counts are reported no more.
func TestClose(t *testing.T) {
	w := watch(t)
	w.Observe(t.Context(), decided(core.SourceCounted, true, nil))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Observe(t.Context(), decided(core.SourceCounted, true, nil))
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
	telemetry.Observe(t.Context(), decided(core.SourceCounted, true, nil))
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	telemetry.Observe(t.Context(), decided(core.SourceCounted, true, nil))
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

package sashotel_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashotel"
)

// watcher is a Telemetry with an SDK that reads its metrics when it is asked.
type watcher struct {
	*sashotel.Telemetry
	reader *sdkmetric.ManualReader
}

// watch returns a new Telemetry with its reader.
func watch(tb testing.TB, options ...sashotel.Option) watcher {
	tb.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	telemetry, err := sashotel.New(append(options, sashotel.WithMeterProvider(provider))...)
	if err != nil {
		tb.Fatal(err)
	}
	return watcher{telemetry, reader}
}

// metrics returns all metrics, by name.
func (w watcher) metrics(tb testing.TB) map[string]metricdata.Metrics {
	tb.Helper()
	return read(tb, w.reader)
}

// read returns all metrics of sash that a reader finds, by name.
func read(tb testing.TB, reader *sdkmetric.ManualReader) map[string]metricdata.Metrics {
	tb.Helper()
	var found metricdata.ResourceMetrics
	if err := reader.Collect(tb.Context(), &found); err != nil {
		tb.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, s := range found.ScopeMetrics {
		for _, m := range s.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// points returns the values of a metric by their attributes, such as
// "sash.rule=login sash.store=redis". The value of a histogram is its count.
func (w watcher) points(tb testing.TB, name string) map[string]float64 {
	tb.Helper()
	return pointsOf(tb, w.metrics(tb)[name])
}

func pointsOf(tb testing.TB, m metricdata.Metrics) map[string]float64 {
	tb.Helper()
	values := map[string]float64{}
	add := func(set attribute.Set, value float64) { values[text(set.ToSlice())] = value }
	switch data := m.Data.(type) {
	case nil:
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Count))
		}
	default:
		tb.Fatalf("%s is a %T", m.Name, data)
	}
	return values
}

// text returns attributes in the order of their names.
func text(attributes []attribute.KeyValue) string {
	var all []string
	for _, a := range attributes {
		all = append(all, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// happened returns the points that are not 0.
func happened(points map[string]float64) map[string]float64 {
	points = maps.Clone(points)
	maps.DeleteFunc(points, func(_ string, n float64) bool { return n == 0 })
	return points
}

// wantPoints fails unless the points of a metric that are not 0 are the wanted ones.
func (w watcher) wantPoints(tb testing.TB, name string, want map[string]float64) {
	tb.Helper()
	if got := happened(w.points(tb, name)); !maps.Equal(got, want) {
		tb.Errorf("%s: %v, want %v", name, got, want)
	}
}

// decided returns an event of the limiter "api" and its rule "login".
func decided(source core.Source, allowed bool, err error) core.Event {
	return core.Event{
		Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: allowed, Source: source, Err: err}, Elapsed: time.Microsecond,
	}
}

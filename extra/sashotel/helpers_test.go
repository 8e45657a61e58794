package sashotel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/internal/metrics"
	"github.com/sashlimit/sash/extra/sashotel"
)

// watch returns a new Telemetry, and an SDK that reads its metrics when it is asked.
func watch(options ...sashotel.Option) (*sashotel.Telemetry, *sdkmetric.ManualReader) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	return core.Must(sashotel.New(append(options, sashotel.WithMeterProvider(provider))...)), reader
}

// metric is a metric that was read. Its points are by attributes, such as "sash.rule=login sash.store=redis". Those of
// a histogram are its sums.
type metric struct {
	kind, unit, help string
	points           map[string]float64
}

// happened returns the points that are not 0.
func (m metric) happened() map[string]float64 {
	all := map[string]float64{}
	for of, n := range m.points {
		if n != 0 {
			all[of] = n
		}
	}
	return all
}

// read returns all metrics that a reader finds, by name.
func read(tb testing.TB, reader *sdkmetric.ManualReader) map[string]metric {
	tb.Helper()
	var found metricdata.ResourceMetrics
	if err := reader.Collect(tb.Context(), &found); err != nil {
		tb.Fatal(err)
	}
	all := map[string]metric{}
	for _, s := range found.ScopeMetrics {
		for _, m := range s.Metrics {
			got := metric{"gauge", m.Unit, m.Description, map[string]float64{}}
			var points []metricdata.DataPoint[float64]
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				got.kind, points = "updowncounter", data.DataPoints
				if data.IsMonotonic {
					got.kind = "counter"
				}
			case metricdata.Gauge[float64]:
				points = data.DataPoints
			case metricdata.Histogram[float64]:
				got.kind = "histogram"
				for _, p := range data.DataPoints {
					points = append(points, metricdata.DataPoint[float64]{Attributes: p.Attributes, Value: p.Sum})
					if !slices.Equal(p.Bounds, metrics.Buckets) {
						tb.Errorf("%s has the bounds %v, want %v", m.Name, p.Bounds, metrics.Buckets)
					}
				}
			}
			for _, p := range points {
				got.points[text(p.Attributes.ToSlice())] = p.Value
			}
			all[m.Name] = got
		}
	}
	return all
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

// decided returns an event of the limiter "api" and its rule "login".
func decided(source core.Source, allowed bool, err error) core.Event {
	return core.Event{
		Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: allowed, Source: source, Err: err}, Elapsed: time.Microsecond,
	}
}

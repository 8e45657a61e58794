package sashotel_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashotel"
)

// unbounded returns a Telemetry by route whose SDK tells all sets of attributes apart.
func unbounded(t *testing.T) watcher {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
	telemetry, err := sashotel.New(sashotel.ByRoute(), sashotel.WithMeterProvider(provider))
	if err != nil {
		t.Fatal(err)
	}
	return watcher{telemetry, reader}
}

// TestHostileLabels: a program that gives paths as labels, and makes a rule for each
// tenant, gets a bounded number of series, and no decision is lost.
func TestHostileLabels(t *testing.T) {
	const decisions, bound, zeros = 5000, 2000, 1000
	for _, test := range []struct {
		name  string
		event func(i int) core.Event
		other string // the attributes of the series that has the rest
	}{
		{"paths as labels", func(i int) core.Event {
			return core.Event{Name: "api", Label: fmt.Sprintf("/a/%d/%s", i, strings.Repeat("x", i))}
		}, "http.route=other sash.allowed=false sash.limiter=api sash.outcome=refused sash.rule="},
		{"a rule for each tenant", func(i int) core.Event {
			return core.Event{Name: "api", Rule: fmt.Sprint("tenant", i), Label: "/"}
		}, "http.route=other sash.allowed=false sash.limiter=other sash.outcome=refused sash.rule=other"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := unbounded(t)
			for i := range decisions {
				e := test.event(i)
				e.Key, e.Decision.Source = "k", core.Counted
				w.Observe(t.Context(), e)
			}
			points := w.points(t, "sash.decisions")
			if len(points) > bound+zeros {
				t.Errorf("%d sets of attributes, want at most %d", len(points), bound+zeros)
			}
			total := 0.0
			for attributes, n := range points {
				total += n
				if len(attributes) > 500 {
					t.Errorf("attributes of %d bytes: %.100s...", len(attributes), attributes)
				}
			}
			if other := points[test.other]; total != decisions || other < decisions-bound {
				t.Errorf("counted %v, of which %v with %s; want %d and at least %d",
					total, other, test.other, decisions, decisions-bound)
			}
		})
	}
}

// TestOverflow: where the SDK tells fewer sets of attributes apart than there are, the
// earlier ones keep their own in each reading, no count decreases, and none is lost.
func TestOverflow(t *testing.T) {
	w := watch(t, sashotel.ByRoute())
	total := 0.0
	observe := func(from, to int) {
		for i := from; i < to; i++ {
			for _, allowed := range []bool{true, false} {
				e := decided(core.Counted, allowed, nil)
				e.Label = fmt.Sprint("/", i)
				w.Observe(t.Context(), e)
				total++
			}
		}
	}
	var before map[string]float64
	for _, part := range [][2]int{{0, 900}, {0, 1000}, {500, 1000}} {
		observe(part[0], part[1])
		after := w.points(t, "sash.decisions")
		sum := 0.0
		for attributes, n := range after {
			sum += n
			if n < before[attributes] {
				t.Errorf("%s: %v after %v", attributes, n, before[attributes])
			}
		}
		for attributes := range before {
			if _, ok := after[attributes]; !ok {
				t.Errorf("%s is gone", attributes)
			}
		}
		if sum != total {
			t.Errorf("counted %v, want %v", sum, total)
		}
		before = maps.Clone(after)
	}
	if before["otel.metric.overflow=true"] == 0 {
		t.Error("the SDK has added up nothing: this test needs more series")
	}
}

// TestUglyLabels: what an exporter would refuse is replaced. Labels that become the same
// are one series.
func TestUglyLabels(t *testing.T) {
	w := watch(t, sashotel.ByRoute())
	long := strings.Repeat("é", 200)
	for _, label := range []string{"\xff", "\xfe", "\x00\"\n\\", long, long + "x"} {
		e := decided(core.Counted, true, nil)
		e.Label = label
		w.For("\xff").Observe(t.Context(), e)
	}
	const rest = " sash.allowed=true sash.limiter=api sash.outcome=admitted sash.rule=login"
	w.wantPoints(t, "sash.decisions", map[string]float64{
		"http.route=\uFFFD" + rest:                      2,
		"http.route=\x00\"\n\\" + rest:                  1,
		"http.route=" + strings.Repeat("é", 128) + rest: 2,
	})
	w.wantPoints(t, "sash.decision.duration", map[string]float64{"sash.source=counted sash.store=\uFFFD": 5})
}

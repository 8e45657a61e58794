package sashotel_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/regions"
)

// everything returns the metrics of a Telemetry that reports all there are.
func everything(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	w := watch(t)
	observer := w.For("redis")
	observer.Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrTimeout))
	observer.Notice(t.Context(), core.Notice{Code: "code"})
	if err := w.Watch("memory", memstore.New()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	err := w.Watch("redis", fixed[redisstore.Stats]{stats: redisstore.Stats{Breakers: []redisstore.Breaker{
		{Server: "127.0.0.1:6379", State: redisstore.StateOpen, Changed: now, FailingSince: now},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	world := regions.Stats{Regions: []regions.Region{{Name: "eu", Latest: now}}}
	err = w.Watch("world", fixed[regions.Stats]{stats: world})
	if err != nil {
		t.Fatal(err)
	}
	return w.metrics(t)
}

// shape returns the kind of a metric and the names of its attributes.
func shape(t *testing.T, m metricdata.Metrics) (kind string, attributes []string) {
	t.Helper()
	var set attribute.Set
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		kind, set = "updowncounter", data.DataPoints[0].Attributes
		if data.IsMonotonic {
			kind = "counter"
		}
	case metricdata.Gauge[float64]:
		kind, set = "gauge", data.DataPoints[0].Attributes
	case metricdata.Histogram[float64]:
		kind, set = "histogram", data.DataPoints[0].Attributes
	default:
		t.Fatalf("%s is a %T", m.Name, data)
	}
	for _, a := range set.ToSlice() {
		attributes = append(attributes, string(a.Key))
	}
	return kind, attributes
}

// listed are the lines of doc.go that name a metric.
var listed = regexp.MustCompile(`(?m)^//\t(sash\.[a-z._]+) +(counter|updowncounter|gauge|histogram) +(\S+) +(.+)$`)

// TestDoc: doc.go lists the metrics with their kind, unit and attributes, all of them and
// no others. docs/metrics.md names some of them.
func TestDoc(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := everything(t)
	named := regexp.MustCompile("\\| `(sash\\.[a-z._]+)` \\|").FindAllStringSubmatch(string(page), -1)
	for _, name := range named {
		if _, ok := all[name[1]]; !ok {
			t.Errorf("docs/metrics.md names %s, which is not reported", name[1])
		}
	}
	if len(named) == 0 {
		t.Error("docs/metrics.md names no metric")
	}
	for _, line := range listed.FindAllStringSubmatch(string(doc), -1) {
		name, kind, unit, attributes := line[1], line[2], line[3], strings.Split(line[4], ", ")
		m, ok := all[name]
		if !ok {
			t.Errorf("doc.go lists %s, which is not reported", name)
			continue
		}
		delete(all, name)
		gotKind, gotAttributes := shape(t, m)
		slices.Sort(attributes)
		if gotKind != kind || m.Unit != unit || !slices.Equal(gotAttributes, attributes) {
			t.Errorf("%s is a %s in %s with %q, and doc.go says %s, %s, %q",
				name, gotKind, m.Unit, gotAttributes, kind, unit, attributes)
		}
		if !strings.HasSuffix(m.Description, ".") {
			t.Errorf("the description of %s is %q, want a sentence", name, m.Description)
		}
	}
	if len(all) > 0 {
		t.Errorf("doc.go does not list %q", slices.Sorted(maps.Keys(all)))
	}
}

// TestDependencies: the package needs the API of OpenTelemetry and not its SDK.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "\ngo.opentelemetry.io/otel/metric\n") {
		t.Errorf("the package compiles %s, want the API of OpenTelemetry among it", out)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(path, "go.opentelemetry.io/otel/sdk") {
			t.Errorf("the package compiles %s of the SDK", path)
		}
	}
}

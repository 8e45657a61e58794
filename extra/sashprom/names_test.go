package sashprom_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/regions"
	"github.com/sashlimit/sash/extra/sashprom"
)

// everything returns a registry of metrics that have all been observed.
func everything(t *testing.T, options ...sashprom.Option) *prometheus.Registry {
	t.Helper()
	m := core.Must(sashprom.New(options...))
	m.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrTimeout))
	m.Notice(t.Context(), core.Notice{Name: "api", Code: "twice"})
	watch(t, m, "memory", memstore.New())
	watch(t, m, "redis", fixed[redisstore.Stats]{stats: redisstore.Stats{Breakers: []redisstore.Breaker{
		{Server: "a", State: redisstore.StateOpen, Changed: time.Now(), FailingSince: time.Now()},
	}}})
	watch(t, m, "world", fixed[regions.Stats]{stats: regions.Stats{Regions: []regions.Region{{Latest: time.Now()}}}})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	return registry
}

// labelsByName returns the labels of each metric of a registry.
func labelsByName(t *testing.T, registry *prometheus.Registry) map[string][]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, family := range families {
		labels[family.GetName()] = []string{}
		for _, pair := range family.Metric[0].GetLabel() {
			labels[family.GetName()] = append(labels[family.GetName()], pair.GetName())
		}
	}
	return labels
}

// listed returns the labels of each metric that a document lists, given how it writes a
// line: the first group is the name, the second the labels.
func listed(t *testing.T, path, line string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, match := range regexp.MustCompile(line).FindAllStringSubmatch(string(text), -1) {
		names := regexp.MustCompile(`[a-z]+`).FindAllString(match[2], -1)
		slices.Sort(names)
		if labels[match[1]] != nil {
			t.Errorf("%s lists %s twice", path, match[1])
		}
		labels[match[1]] = names
	}
	return labels
}

// TestListed: doc.go lists the metrics that there are, each with its labels, and docs/metrics.md some of them.
func TestListed(t *testing.T) {
	want := labelsByName(t, everything(t))
	doc := listed(t, "doc.go", `(?m)^//\t(sash_\w+)\{([^}]+)\}   *\S`)
	page := listed(t, "../../docs/metrics.md", "(?m)^\\| `(sash_\\w+)\\{([^}]+)\\}`")
	for name, labels := range want {
		if !slices.Equal(doc[name], labels) {
			t.Errorf("doc.go lists %s with the labels %q, want %q", name, doc[name], labels)
		}
	}
	for _, some := range []map[string][]string{doc, page} {
		for name, labels := range some {
			if !slices.Equal(labels, want[name]) {
				t.Errorf("%s is listed with the labels %q, want %q", name, labels, want[name])
			}
		}
	}
	if len(page) == 0 {
		t.Error("docs/metrics.md lists no metric")
	}
	if len(want) != 31 {
		t.Errorf("%d metrics %q, want 31", len(want), slices.Sorted(maps.Keys(want)))
	}
}

// TestLint: the names and the helps are as Prometheus wants them, on all metrics.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t, sashprom.ByRoute()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

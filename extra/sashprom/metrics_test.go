package sashprom_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/regions"
	"github.com/sashlimit/sash/extra/sashprom"
)

// decided returns an event of the limiter "api" and its rule "login".
func decided(source core.Source, allowed bool, err error) core.Event {
	return core.Event{
		Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: allowed, Source: source, Err: err}, Elapsed: time.Microsecond,
	}
}

// fixed is a store whose Stats are as given.
type fixed[S any] struct {
	core.Store
	stats S
}

func (f fixed[S]) Stats() S { return f.stats }

// everything returns a registry of metrics that have all been observed.
func everything(t *testing.T, options ...sashprom.Option) *prometheus.Registry {
	t.Helper()
	m := core.Must(sashprom.New(options...))
	m.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrTimeout))
	m.Notice(t.Context(), core.Notice{Name: "api", Code: "twice"})
	for _, label := range []string{"\xff", "\xfe"} { // what Prometheus refuses becomes the same route and store
		e := decided(core.SourceCached, false, nil)
		e.Label, e.Shadow = label, true
		m.For(label).Observe(t.Context(), e)
	}
	for _, d := range []time.Duration{0, 1, 100, 101, time.Millisecond, time.Second} {
		e := decided(core.SourceCounted, true, nil)
		e.Elapsed, e.Peek = d, true // a peek is no decision about a request, but the store was asked
		m.For("redis").Observe(t.Context(), e)
	}
	m.Observe(t.Context(), decided(core.SourceNone, false, context.Canceled))
	for name, store := range map[string]core.Store{
		"memory": fixed[memstore.Stats]{stats: memstore.Stats{
			Bytes: 1, MaxBytes: 2, Slots: 3, Limits: 4, Evictions: 5, SketchOnly: 6,
			RefusedEvicted: 7, RefusedNewKeys: 8, Full: 9,
		}},
		"redis": fixed[redisstore.Stats]{stats: redisstore.Stats{
			Breakers: []redisstore.Breaker{
				{Server: "a:1", State: redisstore.StateOpen, TripCount: 3,
					Changed: time.Unix(1_000, 500_000_000), FailingSince: time.Unix(900, 0)},
				{Server: "a:1", State: redisstore.StateClosed}, // twice, which must not make the scrape fail
				{Server: "b\xff", State: redisstore.StateClosed},
			},
			Batches: 1, BatchRequests: 2, LargestBatch: 3, Scripts: 4, NoScripts: 5,
			Refusals: 6, RefusedFromMemory: 7, Leases: 8, UnspentUnits: 9,
		}},
		"world": fixed[regions.Stats]{stats: regions.Stats{Clients: 1, Overdue: 2, Regions: []regions.Region{
			{Name: "eu", Local: true, Latest: time.Unix(900, 0)},
			{Name: "us", SilentSince: time.Unix(800, 0), Spilled: 3},
		}}},
	} {
		if err := m.Watch(name, store); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	return registry
}

// TestScrape: each event is counted under its outcome, and the other outcomes are there too; a duration of 0 was not
// measured; and the metrics of a store are its Stats.
func TestScrape(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	promhttp.HandlerFor(everything(t), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	wants := []string{
		`sash_decisions_total{allowed="true",limiter="api",outcome="failed_open",rule="login"} 1`,
		`sash_decisions_total{allowed="true",limiter="api",outcome="shadow_refused",rule="login"} 2`,
		`sash_decisions_total{allowed="true",limiter="api",outcome="admitted",rule="login"} 0`,
		`sash_store_errors_total{kind="timeout",store="redis"} 1`,
		`sash_store_errors_total{kind="unavailable",store="redis"} 0`,
		`sash_notices_total{code="twice",limiter="api",rule=""} 1`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="1e-07"} 2`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="0.0005"} 3`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="0.1"} 4`,
		`sash_decision_duration_seconds_sum{source="counted",store="redis"} 1.001000202`,
		`sash_decision_duration_seconds_count{source="cached",store="` + "\uFFFD" + `"} 2`,

		`sash_breaker_state{server="a:1",state="open",store="redis"} 1`,
		`sash_breaker_state{server="a:1",state="half-open",store="redis"} 0`,
		`sash_breaker_state{server="a:1",state="closed",store="redis"} 0`,
		`sash_breaker_state{server="b` + "\uFFFD" + `",state="closed",store="redis"} 1`,
		`sash_breaker_change_timestamp_seconds{server="a:1",store="redis"} 1000.5`,
		`sash_breaker_failing_since_timestamp_seconds{server="a:1",store="redis"} 900`,
		`sash_breaker_trips_total{server="a:1",store="redis"} 3`,

		`sash_region_up{region="eu",store="world"} 1`,
		`sash_region_up{region="us",store="world"} 0`,
		`sash_region_answer_timestamp_seconds{region="eu",store="world"} 900`,
		`sash_region_spilled_total{region="us",store="world"} 3`,
	}
	for store, numbers := range map[string]string{
		"memory": "store_memory_usage_bytes 1, store_memory_limit_bytes 2, store_slots 3, store_limits 4, " +
			"store_evictions_total 5, store_sketch_only_total 6, store_refused_evicted_total 7, " +
			"store_refused_new_keys_total 8, store_full_total 9",
		"redis": "batches_total 1, batched_requests_total 2, batch_max_requests 3, scripts_total 4, " +
			"noscript_replies_total 5, cached_refusals 6, refused_from_memory_total 7, leases 8, lease_unspent_units 9",
		"world": "region_clients 1, region_overdue 2",
	} {
		for number := range strings.SplitSeq(numbers, ", ") {
			wants = append(wants, "sash_"+strings.Replace(number, " ", `{store="`+store+`"} `, 1))
		}
	}
	if lacks := slices.DeleteFunc(wants, func(want string) bool {
		return strings.Contains("\n"+w.Body.String(), "\n"+want+"\n")
	}); len(lacks) > 0 {
		t.Errorf("status %d, the scrape lacks %q: %s", w.Code, lacks, w.Body)
	}
	for prefix, want := range map[string]int{
		"sash_decisions_total{": int(core.OutcomeShadowRefused) + 1, "sash_breaker_": 2*3 + 1 + 1 + 2,
		"sash_decision_duration_seconds_count{": 3, // none of a decision that asked nothing
	} {
		if got := strings.Count(w.Body.String(), "\n"+prefix); got != want {
			t.Errorf("got %d of %s, want %d", got, prefix, want)
		}
	}
}

// labels returns the labels of each metric that a document lists, given how it writes a line: the first group is the
// name, the second the labels.
func labels(t *testing.T, path, line string) map[string][]string {
	t.Helper()
	text := core.Must(os.ReadFile(path))
	listed := map[string][]string{}
	for _, match := range regexp.MustCompile(line).FindAllStringSubmatch(string(text), -1) {
		if listed[match[1]] != nil {
			t.Errorf("%s lists %s twice", path, match[1])
		}
		listed[match[1]] = slices.Sorted(slices.Values(strings.Split(match[2], ", ")))
	}
	return listed
}

// TestListed: doc.go lists the metrics that there are, each with its labels, and docs/monitoring.md some of them.
func TestListed(t *testing.T) {
	want := map[string][]string{}
	for _, family := range core.Must(everything(t).Gather()) {
		for _, pair := range family.Metric[0].GetLabel() {
			want[family.GetName()] = append(want[family.GetName()], pair.GetName())
		}
	}
	doc := labels(t, "doc.go", `(?m)^//\t(sash_\w+)\{([^}]+)\}   *\S`)
	if !maps.EqualFunc(doc, want, slices.Equal) || len(want) != 31 {
		t.Errorf("doc.go lists %d metrics %q, want 31: %q", len(doc), doc, want)
	}
	page := labels(t, "../../docs/monitoring.md", "(?m)^\\| `(sash_\\w+)\\{([^}]+)\\}`")
	for name, labels := range page {
		if !slices.Equal(labels, want[name]) {
			t.Errorf("docs/monitoring.md lists %s with the labels %q, want %q", name, labels, want[name])
		}
	}
	if len(page) == 0 {
		t.Error("docs/monitoring.md lists no metric")
	}
}

// TestLint: the names and the helps are as Prometheus wants them, on all metrics.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t, sashprom.ByRoute()))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestNoAllocation: no decision allocates, whatever is counted or measured of it.
func TestNoAllocation(t *testing.T) {
	for name, e := range map[string]core.Event{
		"counted": decided(core.SourceCounted, true, nil),
		"failed":  decided(core.SourcePolicy, true, core.ErrUnavailable),
	} {
		observer := core.Must(sashprom.New(sashprom.ByRoute())).For("redis")
		if n := testing.AllocsPerRun(1000, func() { observer.Observe(t.Context(), e) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

// TestMisuse: a nil option is said when the program starts.
func TestMisuse(t *testing.T) {
	if _, err := sashprom.New(nil); err == nil || err.Error() != "sash: option 1 of sashprom.New is nil: leave it out" {
		t.Errorf("got the error %v, want one about option 1", err)
	}
}

package sashotel_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/regions"
	"github.com/sashlimit/sash/extra/sashotel"
)

// fixed is a store whose Stats are as given.
type fixed[S any] struct {
	core.Store
	stats S
}

func (f fixed[S]) Stats() S { return f.stats }

// everything returns the metrics of a Telemetry that reports all there are.
func everything(t *testing.T) map[string]metric {
	t.Helper()
	w, reader := watch()
	w.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrTimeout))
	w.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrUnavailable))
	w.Observe(t.Context(), decided(core.SourceNone, false, context.Canceled)) // has no duration
	shadow := decided(core.SourceCached, false, nil)
	shadow.Shadow = true
	w.Observe(t.Context(), shadow)
	for _, d := range []time.Duration{0, 100, 101, time.Second} {
		e := decided(core.SourceCounted, true, nil)
		e.Elapsed, e.Peek = d, true // a peek is no decision about a request, but the store was asked
		w.For("redis").Observe(t.Context(), e)
	}
	for _, o := range []core.Observer{w, core.Observers(core.Silent, w.For("memory"))} {
		o.(core.NoticeObserver).Notice(t.Context(), core.Notice{Code: "large-log", Name: "api"})
	}
	eu := regions.Region{Name: "eu", Latest: time.Now()}
	for name, store := range map[string]core.Store{
		"memory": memstore.New(),
		"redis": fixed[redisstore.Stats]{stats: redisstore.Stats{UnspentUnits: 9, Breakers: []redisstore.Breaker{
			{Server: "", State: redisstore.StateClosed},
			{Server: "[::1]:6379", State: redisstore.StateHalfOpen, Changed: time.UnixMilli(3500), TripCount: 2,
				FailingSince: time.UnixMilli(1500)},
			{Server: "FailoverClient", State: redisstore.StateOpen, TripCount: 1},
		}}},
		"world": fixed[regions.Stats]{stats: regions.Stats{Regions: []regions.Region{eu}}},
	} {
		if err := w.Watch(name, store); err != nil {
			t.Fatal(err)
		}
	}
	return read(t, reader)
}

// TestMetrics: each event is counted under its outcome, and the other outcomes are there too; each source, store and
// kind of error has a histogram of its own. The breaker of each server has four metrics. Package tally names all
// numbers of stores, and the tests of sashprom read them.
func TestMetrics(t *testing.T) {
	const of = "sash.allowed=true sash.limiter=api sash.outcome="
	const unknown, local, failover = "sash.store=redis server.address=",
		"sash.store=redis server.address=::1 server.port=6379", "sash.store=redis server.address=FailoverClient"
	all := everything(t)
	for name, want := range map[string]map[string]float64{
		"sash.decisions": {
			of + "failed_open sash.rule=login": 2, of + "shadow_refused sash.rule=login": 1,
			"sash.allowed=false sash.limiter=api sash.outcome=canceled sash.rule=login": 1,
		},
		"sash.store.errors": {"error.type=timeout sash.store=redis": 1, "error.type=unavailable sash.store=redis": 1},
		"sash.notices":      {"sash.limiter=api sash.notice.code=large-log sash.rule=": 2},
		"sash.decision.duration": {
			"sash.source=counted sash.store=redis":                       1.000000201,
			"sash.source=cached sash.store=":                             1e-6,
			"error.type=timeout sash.source=policy sash.store=redis":     1e-6,
			"error.type=unavailable sash.source=policy sash.store=redis": 1e-6,
		},
		"sash.lease.unspent_units": {"sash.store=redis": 9},
		"sash.breaker.state": {
			"sash.breaker.state=closed " + unknown:  1,
			"sash.breaker.state=half-open " + local: 1,
			"sash.breaker.state=open " + failover:   1,
		},
		"sash.breaker.trips":                   {local: 2, failover: 1},
		"sash.breaker.change_timestamp":        {local: 3.5},
		"sash.breaker.failing_since_timestamp": {local: 1.5},
	} {
		if got := all[name].happened(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]int{
		"sash.decisions": int(core.OutcomeShadowRefused) + 1, "sash.store.errors": 2 * 6, "sash.breaker.state": 3 * 3,
	} {
		if got := len(all[name].points); got != want {
			t.Errorf("%s has %d points, want %d", name, got, want)
		}
	}
}

// TestRoutes: the label of an event makes http.route and http.request.method.
func TestRoutes(t *testing.T) {
	const rest = "sash.allowed=true sash.limiter=api sash.outcome=admitted sash.rule=login"
	w, reader := watch(sashotel.ByRoute())
	want := map[string]float64{}
	for label, attributes := range map[string]string{
		"POST /login":             "http.request.method=POST http.route=/login ",
		"GET example.com/{id...}": "http.request.method=GET http.route=example.com/{id...} ",
		"/users/:id":              "http.route=/users/:id ",
		"":                        "",
	} {
		e := decided(core.SourceCounted, true, nil)
		e.Label = label
		w.Observe(t.Context(), e)
		want[attributes+rest] = 1
	}
	if got := read(t, reader)["sash.decisions"].happened(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDoc: doc.go lists the metrics with their kind, unit and attributes, all of them and
// no others. docs/monitoring.md names some of them.
func TestDoc(t *testing.T) {
	find := func(path, line string) [][]string {
		return regexp.MustCompile(line).FindAllStringSubmatch(string(core.Must(os.ReadFile(path))), -1)
	}
	all := everything(t)
	named := find("../../docs/monitoring.md", "\\| `(sash\\.[a-z._]+)` \\|")
	for _, name := range named {
		if all[name[1]].kind == "" {
			t.Errorf("docs/monitoring.md names %s, which is not reported", name[1])
		}
	}
	if len(named) == 0 {
		t.Error("docs/monitoring.md names no metric")
	}
	for _, line := range find("doc.go", `(?m)^//\t(sash\.[a-z._]+) +(\w*counter|gauge|histogram) +(\S+) +(.+)$`) {
		m, attributes := all[line[1]], map[string]bool{}
		for point := range m.points {
			for pair := range strings.FieldsSeq(point) {
				name, _, _ := strings.Cut(pair, "=")
				attributes[name] = true
			}
		}
		if line[2] != m.kind || line[3] != m.unit || !strings.HasSuffix(m.help, ".") || !slices.Equal(
			slices.Sorted(maps.Keys(attributes)), slices.Sorted(strings.SplitSeq(line[4], ", "))) {
			t.Errorf("doc.go says %q of %+v", line[1:], m)
		}
		delete(all, line[1])
	}
	if len(all) > 0 {
		t.Errorf("doc.go does not list %q", slices.Sorted(maps.Keys(all)))
	}
}

// TestDependencies: the package needs the API of OpenTelemetry and not its SDK.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\ngo.opentelemetry.io/otel/metric\n") ||
		strings.Contains(string(out), "\ngo.opentelemetry.io/otel/sdk") {
		t.Errorf("the package compiles %s, %v, want the API of OpenTelemetry and no SDK among it", out, err)
	}
}

// TestNoAllocation: in a span that does not record, no decision allocates, whatever is
// counted or measured of it.
func TestNoAllocation(t *testing.T) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, span := provider.Tracer("test").Start(t.Context(), "request")
	defer span.End()
	w, _ := watch(sashotel.ByRoute())
	observer := w.For("redis")
	for name, e := range map[string]core.Event{
		"counted": decided(core.SourceCounted, true, nil),
		"failed":  decided(core.SourcePolicy, true, core.ErrUnavailable),
	} {
		if n := testing.AllocsPerRun(1000, func() { observer.Observe(ctx, e) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

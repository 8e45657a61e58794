package metrics

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
)

// told returns what a Tally tells: "metric label label" with its value.
func told(t *Collector) map[string]float64 {
	values := map[string]float64{}
	t.Read(func(m *Metric, value float64, labels ...string) {
		if len(labels) != len(m.Labels) {
			panic(fmt.Sprintf("%s: got labels %q, want %q", m.Name, labels, m.Labels))
		}
		values[m.Name+" "+strings.Join(labels, " ")] = value
	})
	return values
}

// answer is an error that a Redis server has answered.
type answer struct{ error }

func (answer) RedisError() {}

// TestKinds: each kind of error. All kinds of a store with a name are told.
func TestKinds(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Kind
	}{
		{core.ErrStoreFull, full},
		{core.ErrUnavailable, unavailable},
		{core.ErrTimeout, timedOut},
		{io.EOF, connection},
		{io.ErrUnexpectedEOF, connection},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, connection},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, timedOut},
		{answer{errors.New("WRONGPASS")}, server},
		{io.ErrNoProgress, unknown},
	} {
		collector := New(false, 0)
		name := collector.Store("redis")
		e := core.Event{Key: "k", Peek: true, Decision: core.Decision{
			Source: core.SourcePolicy, Err: fmt.Errorf("%w: %w", core.ErrStore, test.err),
		}}
		if got := collector.Observe(name, &e); got != test.want {
			t.Errorf("%v: got %v, want %v", test.err, got, test.want)
		}
		got := told(collector)
		if len(got) != int(NoError) || got["store.errors redis "+test.want.String()] != 1 {
			t.Errorf("%v: got %v, want each of %d kinds, and one error", test.err, got, NoError)
		}
	}
}

// TestBounds: a program that gives paths as labels, or makes a rule for each tenant, gets a
// bounded number of series, and no decision is lost. Nor is a notice. The order of series stays,
// since an SDK that tells fewer apart adds up the last ones.
func TestBounds(t *testing.T) {
	const events, bound = 3000, 2000
	refusal := func(e core.Event) core.Event {
		e.Key, e.Decision.Source = "k", core.SourceCounted
		return e
	}
	for name, test := range map[string]struct {
		observe func(collector *Collector, i int)
		other   string // the series that has the rest
	}{
		"paths as labels": {func(collector *Collector, i int) {
			e := refusal(core.Event{Name: "api", Label: fmt.Sprintf("/a/%d/%s", i, strings.Repeat("x", i))})
			collector.Observe("", &e)
		}, "decisions api  refused false other"},
		"a rule for each tenant": {func(collector *Collector, i int) {
			e := refusal(core.Event{Name: "api", Rule: fmt.Sprint("tenant", i), Label: "GET /"})
			collector.Observe("", &e)
		}, "decisions other other refused false other"},
		"notices": {func(collector *Collector, i int) {
			collector.Notice(core.Notice{Name: fmt.Sprintf("\xff%d", i), Code: strings.Repeat("x", 1000)})
		}, "notices other other other"},
	} {
		collector := New(true, 0)
		var before, series []string
		for i := range events {
			if test.observe(collector, i); i%1000 != 99 {
				continue
			}
			before, series = series, nil
			collector.Read(func(_ *Metric, _ float64, labels ...string) { series = append(series, fmt.Sprint(labels)) })
			if !slices.Equal(before, series[:len(before)]) {
				t.Errorf("%s: after %d events other series come first", name, i)
			}
		}
		all, sum := told(collector), 0.0
		for labels, n := range all {
			sum += n
			if len(labels) > 400 || strings.Contains(labels, "\xff") {
				t.Errorf("%s: got labels of %d bytes: %.100q", name, len(labels), labels)
			}
		}
		if len(all) > bound || sum != events || all[test.other] < events-bound {
			t.Errorf("%s: got %v events in %d series, %v of them in %q; want %d in at most %d, and at least %d there",
				name, sum, len(all), all[test.other], test.other, events, bound, events-bound)
		}
	}
}

// TestZeros: a new limiter tells all outcomes, so that a rate knows the first failure, until
// there are as many counters as New was given.
func TestZeros(t *testing.T) {
	outcomes := int(core.OutcomeShadowRefused) + 1
	collector := New(false, 2*outcomes)
	for i, want := range []int{outcomes, 2 * outcomes, 2*outcomes + 1} {
		e := core.Event{Name: fmt.Sprint(i), Key: "k", Decision: core.Decision{Source: core.SourceCounted}}
		collector.Observe("", &e)
		if got := len(told(collector)); got != want {
			t.Errorf("limiter %d: got %d counters, want %d", i, got, want)
		}
	}
}

// TestRowsOnce: goroutines that see a key for the first time at once make one row of it. A
// second one would be told beside it, and count against the bound.
func TestRowsOnce(t *testing.T) {
	for range 2000 {
		c := newCounts(3, 3)
		start := make(chan struct{})
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				<-start
				c.add(key{"api"}, 1)
			})
		}
		close(start)
		group.Wait()
		if got := len(c.all()); got != 3 {
			t.Fatalf("got %d counters of a key, want 3", got)
		}
	}
}

// TestConcurrent: decisions are counted while stores are added and others read, and none is lost.
func TestConcurrent(t *testing.T) {
	const goroutines, each = 8, 500
	collector := New(true, 0)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				name := collector.Store(fmt.Sprint("store ", i%20))
				e := core.Event{Name: "api", Key: "k", Label: fmt.Sprint((g + i) % 150), Decision: core.Decision{
					Source: core.SourcePolicy, Err: core.ErrTimeout,
				}}
				collector.Observe(name, &e)
				if i%100 == 0 {
					collector.Notice(core.Notice{Code: "twice"})
					told(collector)
				}
			}
		})
	}
	group.Wait()
	sums := map[string]float64{}
	for series, n := range told(collector) {
		name, _, _ := strings.Cut(series, " ")
		sums[name] += n
	}
	if sums["decisions"] != goroutines*each || sums["store.errors"] != goroutines*each {
		t.Errorf("got %v, want %d decisions and errors", sums, goroutines*each)
	}
}

// TestAllStats: each number of a store's Stats has a metric.
func TestAllStats(t *testing.T) {
	for _, test := range []struct {
		metrics []Metric
		stats   reflect.Type
		besides string
	}{
		{memoryMetrics, reflect.TypeFor[memstore.Stats](), ""},
		{redisMetrics, reflect.TypeFor[redisstore.Stats](), "Breakers"},
	} {
		got := map[string]bool{test.besides: true}
		for _, m := range test.metrics {
			got[m.field] = true
		}
		for i := range test.stats.NumField() {
			if name := test.stats.Field(i).Name; !got[name] {
				t.Errorf("no metric of %v.%s", test.stats, name)
			}
		}
	}
}

// TestWatchMisuse: what the program gives wrong is an error when it starts.
func TestWatchMisuse(t *testing.T) {
	collector := New(false, 0)
	if err := collector.Watch("taken", memstore.New()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		name  string
		store core.Store
		want  string
	}{
		"nil":       {"memory", nil, `sash: Watch("memory", nil): give the store of Config.Store`},
		"typed nil": {"memory", (*memstore.Store)(nil), `sash: Watch("memory", nil): give the store of Config.Store`},
		"no Stats": {"strange", storetest.Fixed(core.Decision{}),
			`sash: Watch("strange", ...): a *storetest.fixed has no Stats`},
		"twice": {"taken", memstore.New(), `sash: Watch("taken", ...): a store of that name is watched already`},
	} {
		if err := collector.Watch(test.name, test.store); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	for labels := range told(collector) {
		if !strings.HasSuffix(labels, " taken") {
			t.Errorf("got %s, want only the first store", labels)
		}
	}
}

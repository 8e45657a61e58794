package sashotel_test

import (
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashotel"
)

// TestOutcomes: each event is counted under its outcome, and the other outcomes are there
// too. So are the errors of a store with a name, and notices.
func TestOutcomes(t *testing.T) {
	w := watch(t)
	w.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrTimeout))
	w.Observe(t.Context(), inShadow(decided(core.SourceCounted, false, nil)))
	const of = "sash.allowed=true sash.limiter=api sash.outcome="
	w.wantPoints(t, "sash.decisions", map[string]float64{
		of + "failed_open sash.rule=login": 1, of + "shadow_refused sash.rule=login": 1,
	})
	if got := len(w.points(t, "sash.decisions")); got != int(core.OutcomeShadowRefused)+1 {
		t.Errorf("got %d outcomes, want all %d", got, core.OutcomeShadowRefused+1)
	}
	w.wantPoints(t, "sash.store.errors", map[string]float64{"error.type=timeout sash.store=redis": 1})
	if got := len(w.points(t, "sash.store.errors")); got != 6 {
		t.Errorf("got %d kinds of errors, want all 6", got)
	}
	for _, o := range []core.Observer{w, core.Observers(core.Silent, w.For("memory"))} {
		o.(core.NoticeObserver).Notice(t.Context(), core.Notice{Code: "large-log", Name: "api"})
	}
	w.wantPoints(t, "sash.notices", map[string]float64{"sash.limiter=api sash.notice.code=large-log sash.rule=": 2})
}

// TestDurations: the buckets reach from 100 ns to 100 ms, and each source, store and kind
// of error has a histogram of its own. A duration of 0 was not measured.
func TestDurations(t *testing.T) {
	w := watch(t)
	for _, d := range []time.Duration{0, 1, 100, 101, time.Millisecond, time.Second} {
		e := decided(core.SourceCounted, true, nil)
		e.Elapsed, e.Peek = d, true // a peek is no decision about a request, but the store was asked
		w.For("redis").Observe(t.Context(), e)
	}
	w.For("memory").Observe(t.Context(), decided(core.SourceRemembered, false, nil))
	w.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrTimeout))
	w.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrUnavailable))
	w.wantPoints(t, "sash.decision.duration", map[string]float64{
		"sash.source=counted sash.store=redis":                       5,
		"sash.source=remembered sash.store=memory":                   1,
		"error.type=timeout sash.source=policy sash.store=redis":     1,
		"error.type=unavailable sash.source=policy sash.store=redis": 1,
	})
	for _, p := range w.metrics(t)["sash.decision.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		if text(p.Attributes.ToSlice()) != "sash.source=counted sash.store=redis" {
			continue
		}
		last := len(p.Bounds) - 1
		if p.Bounds[0] != 100e-9 || p.Bounds[last] != 0.1 || !slices.IsSorted(p.Bounds) {
			t.Errorf("bounds %v, want them to rise from 100 ns to 100 ms", p.Bounds)
		}
		want := make([]uint64, len(p.Bounds)+1)
		want[0], want[1], want[slices.Index(p.Bounds, 1e-3)], want[len(p.Bounds)] = 2, 1, 1, 1
		if !slices.Equal(p.BucketCounts, want) {
			t.Errorf("buckets %v, want %v", p.BucketCounts, want)
		}
	}
}

// TestRoutes: the label of an event makes http.route and http.request.method, if asked.
func TestRoutes(t *testing.T) {
	const rest = "sash.allowed=true sash.limiter=api sash.outcome=admitted sash.rule=login"
	for label, want := range map[string]string{
		"POST /login":             "http.request.method=POST http.route=/login ",
		"GET example.com/{id...}": "http.request.method=GET http.route=example.com/{id...} ",
		"/users/:id":              "http.route=/users/:id ",
		"":                        "",
	} {
		e := decided(core.SourceCounted, true, nil)
		e.Label = label
		by, without := watch(t, sashotel.ByRoute()), watch(t)
		by.Observe(t.Context(), e)
		without.Observe(t.Context(), e)
		by.wantPoints(t, "sash.decisions", map[string]float64{want + rest: 1})
		without.wantPoints(t, "sash.decisions", map[string]float64{rest: 1})
	}
}

// inShadow returns the event of a request that goes on whatever is decided.
func inShadow(e core.Event) core.Event {
	e.Shadow = true
	return e
}

package sashprom_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashprom"
)

// scrape returns what Prometheus reads of m.
func scrape(t *testing.T, m *sashprom.Metrics) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("scrape: status %d, error %v: %s", w.Code, err, body)
	}
	return string(body)
}

// samples returns the lines of a scrape that begin with prefix.
func samples(scraped, prefix string) []string {
	var lines []string
	for line := range strings.Lines(scraped) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// wantLines fails unless every wanted line is in the scrape.
func wantLines(t *testing.T, scraped string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains("\n"+scraped, "\n"+line+"\n") {
			t.Errorf("the scrape lacks %s", line)
		}
	}
	if t.Failed() {
		t.Logf("the scrape:\n%s", scraped)
	}
}

// decided returns an event of the limiter "api" and its rule "login".
func decided(source core.Source, allowed bool, err error) core.Event {
	return core.Event{
		Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: allowed, Source: source, Err: err}, Elapsed: time.Microsecond,
	}
}

// TestOutcomes: each event is counted under its outcome, and the other outcomes are there
// too. So are the errors of a store with a name, and notices.
func TestOutcomes(t *testing.T) {
	m := core.Must(sashprom.New())
	m.For("redis").Observe(t.Context(), decided(core.SourcePolicy, true, core.ErrTimeout))
	m.Observe(t.Context(), inShadow(decided(core.SourceCounted, false, nil)))
	m.Notice(t.Context(), core.Notice{Name: "api", Code: "twice"})
	scraped := scrape(t, m)
	wantLines(t, scraped,
		`sash_decisions_total{allowed="true",limiter="api",outcome="failed_open",rule="login"} 1`,
		`sash_decisions_total{allowed="true",limiter="api",outcome="shadow_refused",rule="login"} 1`,
		`sash_decisions_total{allowed="false",limiter="api",outcome="failed_closed",rule="login"} 0`,
		`sash_store_errors_total{kind="timeout",store="redis"} 1`,
		`sash_store_errors_total{kind="unavailable",store="redis"} 0`,
		`sash_notices_total{code="twice",limiter="api",rule=""} 1`)
	if got := len(samples(scraped, "sash_decisions_total")); got != int(core.OutcomeShadowRefused)+1 {
		t.Errorf("got %d outcomes, want all %d", got, core.OutcomeShadowRefused+1)
	}
}

// TestDurations: the buckets reach from 100 ns to 100 ms, and each source and store has
// a histogram of its own. A duration of 0 was not measured.
func TestDurations(t *testing.T) {
	m := core.Must(sashprom.New())
	for _, d := range []time.Duration{0, 1, 100, 101, time.Millisecond, time.Second} {
		e := decided(core.SourceCounted, true, nil)
		e.Elapsed, e.Peek = d, true // a peek is no decision about a request, but the store was asked
		m.For("redis").Observe(t.Context(), e)
	}
	m.For("memory").Observe(t.Context(), decided(core.SourceRemembered, false, nil))
	m.For("memory").Observe(t.Context(), decided(core.SourceUnasked, false, context.Canceled))
	scraped := scrape(t, m)
	wantLines(t, scraped,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="1e-07"} 2`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="2.5e-07"} 3`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="0.0005"} 3`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="0.001"} 4`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="0.1"} 4`,
		`sash_decision_duration_seconds_bucket{source="counted",store="redis",le="+Inf"} 5`,
		`sash_decision_duration_seconds_count{source="counted",store="redis"} 5`,
		`sash_decision_duration_seconds_sum{source="counted",store="redis"} 1.001000202`,
		`sash_decision_duration_seconds_count{source="remembered",store="memory"} 1`,
		`sash_decisions_total{allowed="true",limiter="api",outcome="admitted",rule="login"} 0`)
	if got := samples(scraped, "sash_decision_duration_seconds_count"); len(got) != 2 {
		t.Errorf("histograms %q, want two: a decision that asked nothing has no duration", got)
	}
}

// inShadow returns the event of a request that goes on whatever is decided.
func inShadow(e core.Event) core.Event {
	e.Shadow = true
	return e
}

package sashprom

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/internal/metrics"
)

// Metrics counts the decisions of limiters. It is an observer of limiters and a
// collector for a registry of Prometheus, and safe for concurrent use. [New] makes one;
// the zero Metrics cannot be used.
//
// A decision costs some atomic additions and no allocation.
type Metrics struct {
	collector *metrics.Collector
	descs     map[*metrics.Metric]*prometheus.Desc
	durations *prometheus.HistogramVec
	unnamed   *store // For("")
}

// Option is an option of [New].
type Option func(*settings)

type settings struct{ byRoute bool }

// ByRoute adds the label route to sash_decisions_total: Event.Label, which is in HTTP
// the pattern of the route. Each limiter and rule then has a series for each of its
// routes and outcomes. Invalid UTF-8 is replaced, and a label is cut to 256 bytes.
//
// Up to 1,000 limiters, rules and routes together have their own series. Further ones are counted with the route
// "other", and above 2,000 with the limiter and the rule "other" too, so that paths as labels do no harm to Prometheus.
func ByRoute() Option { return func(s *settings) { s.byRoute = true } }

// New returns metrics without a decision. A nil option is an error.
func New(options ...Option) (*Metrics, error) {
	var s settings
	for i, o := range options {
		if o == nil {
			return nil, fmt.Errorf("sash: option %d of sashprom.New is nil: leave it out", i+1)
		}
		o(&s)
	}
	m := &Metrics{
		collector: metrics.New(s.byRoute, math.MaxInt),
		descs:     map[*metrics.Metric]*prometheus.Desc{},
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name(&metrics.Durations), Help: metrics.Durations.Help, Buckets: metrics.Buckets,
		}, metrics.Durations.Labels),
	}
	for _, metric := range m.collector.Metrics() {
		m.descs[metric] = prometheus.NewDesc(name(metric), metric.Help, metric.Labels, nil)
	}
	m.unnamed = &store{Metrics: m}
	return m, nil
}

// name returns the name of a metric in Prometheus, as OpenTelemetry's exporter makes it.
func name(m *metrics.Metric) string {
	text := "sash_" + strings.ReplaceAll(m.Name, ".", "_")
	switch {
	case m.Unit == "s":
		return text + "_seconds"
	case m.Unit == "By":
		return text + "_bytes"
	case m.Type == metrics.Counter:
		return text + "_total"
	}
	return text
}

// For returns the observer of limiters whose Config.Store the metrics call by the given
// name, such as "redis". Several limiters may have one observer. The name is in the
// label store of durations and errors. A decision of a fallback is one of the first
// store with the source "fallback".
func (m *Metrics) For(name string) core.Observer {
	return &store{Metrics: m, name: m.collector.Store(name)}
}

// Observe counts a decision of a limiter whose store has no name.
func (m *Metrics) Observe(ctx context.Context, e core.Event) { m.unnamed.Observe(ctx, e) }

// Notice counts a notice.
func (m *Metrics) Notice(_ context.Context, n core.Notice) { m.collector.Notice(n) }

// store counts the decisions of limiters on one store.
type store struct {
	*Metrics
	name    string
	sources [core.SourceSkipped]atomic.Pointer[prometheus.Observer] // of durations, cached at the first decision
}

var _, _ core.NoticeObserver = (*Metrics)(nil), (*store)(nil)

// Observe counts a decision. A peek counts only among the durations and the errors.
func (s *store) Observe(_ context.Context, e core.Event) {
	s.collector.Observe(s.name, &e)
	if !metrics.IsMeasured(&e) {
		return
	}
	of := &s.sources[e.Decision.Source]
	if of.Load() == nil {
		found := s.durations.WithLabelValues(s.name, e.Decision.Source.String())
		of.Store(&found)
	}
	(*of.Load()).Observe(e.Elapsed.Seconds())
}

// Watch adds the metrics of a store's Stats. The store is a *memstore.Store, a *redisstore.Store, a *regions.Store, or
// a type with the method Stats of one of these. Its Stats are read at each scrape. Watch fails for other stores and
// nil, and if a store of that name is watched already.
func (m *Metrics) Watch(name string, store core.Store) error { return m.collector.Watch(name, store) }

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range m.descs {
		to <- desc
	}
	m.durations.Describe(to)
}

// Collect sends all metrics. The counters of a limiter start at 0 with its first
// decision, so that a rate knows the first failure too.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.collector.Read(func(metric *metrics.Metric, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if metric.Type == metrics.Counter {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(m.descs[metric], kind, value, labels...)
	})
	m.durations.Collect(to)
}

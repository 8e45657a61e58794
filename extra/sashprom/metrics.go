package sashprom

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sashlimit/sash/core"
)

// Metrics counts the decisions of limiters. It is an observer of limiters and a
// collector for a registry of Prometheus, and safe for concurrent use. [New] makes one;
// the zero Metrics cannot be used.
//
// A decision costs three atomic additions and no allocation.
type Metrics struct {
	byRoute bool
	series  *seriesSet
	notices notices
	descs   descs
	unnamed *store // For("")

	mu      sync.Mutex // guards the maps
	stores  map[string]*store
	watched map[string]func() Stats
}

// Option is an option of [New].
type Option func(*Metrics)

// ByRoute adds the label route to sash_decisions_total: Event.Label, which is in HTTP
// the pattern of the route. Each limiter and rule then has ten series for each of its
// routes. Invalid UTF-8 is replaced, and a label is cut to 256 bytes.
//
// Limiters, rules and routes are told apart up to 1,000 together. What comes later is
// counted with the route "other", and above 2,000 with the limiter and the rule "other"
// too, so that a program that gives paths as labels does no harm to Prometheus.
func ByRoute() Option { return func(m *Metrics) { m.byRoute = true } }

// New returns metrics without a decision. It panics if an option is nil.
func New(options ...Option) *Metrics {
	m := &Metrics{
		series: newSeriesSet(), notices: notices{byKey: map[noticeKey]uint64{}},
		stores: map[string]*store{}, watched: map[string]func() Stats{},
	}
	for i, o := range options {
		if o == nil {
			panic(fmt.Sprintf("sashprom: option %d of New is nil: leave it out, or give sashprom.ByRoute()", i+1))
		}
		o(m)
	}
	m.descs = newDescs(m.byRoute)
	m.unnamed = m.store("")
	return m
}

// For returns the observer of limiters whose Config.Store the metrics call by the given
// name, such as "redis". Several limiters may have one observer. The name is in the
// label store of durations and errors. A decision of a fallback is one of the first
// store with the source "fallback".
func (m *Metrics) For(name string) core.Observer { return m.store(name) }

// Observe counts a decision of a limiter whose store has no name.
func (m *Metrics) Observe(ctx context.Context, e core.Event) { m.unnamed.Observe(ctx, e) }

// store returns the metrics of the store of the given name.
func (m *Metrics) store(name string) *store {
	name = cleanLabel(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stores[name]
	if s == nil {
		s = &store{metrics: m, name: name}
		m.stores[name] = s
	}
	return s
}

// sources is how many values core.Source has.
const sources = int(core.Skipped) + 1

// store counts the decisions of limiters on one store.
type store struct {
	metrics   *Metrics
	name      string
	durations [sources]histogram
	errors    [kinds]atomic.Uint64
}

// Observe counts a decision. A peek admits and refuses no request: it is not counted
// among the decisions, but among the durations and the errors.
func (s *store) Observe(_ context.Context, e core.Event) {
	if !e.Peek {
		key := seriesKey{limiter: e.Name, rule: e.Rule}
		if s.metrics.byRoute {
			key.route = e.Label
		}
		s.metrics.series.of(key).decisions[outcomeOf(&e)].Add(1)
	}
	switch source := e.Decision.Source; source {
	case core.Unasked, core.Skipped: // nothing was asked
		return
	default:
		if e.Elapsed > 0 && int(source) < sources {
			s.durations[source].observe(e.Elapsed)
		}
	}
	if e.Decision.Err != nil {
		s.errors[kindOf(e.Decision.Err)].Add(1)
	}
}

// descs describes the metrics.
type descs struct {
	decisions, durations, errors, notices *prometheus.Desc
}

func newDescs(byRoute bool) descs {
	labels := []string{"limiter", "rule", "outcome", "allowed"}
	if byRoute {
		labels = append(labels, "route")
	}
	return descs{
		decisions: prometheus.NewDesc("sash_decisions_total", "Decisions about requests.", labels, nil),
		durations: prometheus.NewDesc("sash_decision_duration_seconds",
			"How long decisions took that were measured, by the store and by the source of the decision.",
			[]string{"store", "source"}, nil),
		errors: prometheus.NewDesc("sash_store_errors_total",
			"Decisions for which the store could not be asked.", []string{"store", "kind"}, nil),
		notices: prometheus.NewDesc("sash_notices_total",
			"What limiters have noticed that their operator should know, once by each limiter and code.",
			[]string{"limiter", "rule", "code"}, nil),
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.descs.decisions
	to <- m.descs.durations
	to <- m.descs.errors
	to <- m.descs.notices
	describeStats(to)
}

// Collect sends all metrics. The counters of a limiter start at 0 with its first
// decision, so that a rate knows the first failure too.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, s := range m.series.table.Load().all {
		m.collectSeries(s, to)
	}
	m.notices.collect(m.descs.notices, to)
	m.mu.Lock()
	stores := slices.Collect(maps.Values(m.stores))
	watched := maps.Clone(m.watched)
	m.mu.Unlock()
	for _, s := range stores {
		s.collect(&m.descs, to)
	}
	for name, stats := range watched {
		stats().collect(name, to)
	}
}

// collectSeries sends the decisions of a rule.
func (m *Metrics) collectSeries(s *series, to chan<- prometheus.Metric) {
	for i := range s.decisions {
		labels := []string{s.limiter, s.rule, outcomeLabels[i].outcome, outcomeLabels[i].allowed}
		if m.byRoute {
			labels = append(labels, s.route)
		}
		to <- count(m.descs.decisions, s.decisions[i].Load(), labels...)
	}
}

// collect sends the durations and the errors of a store. The unnamed store has no
// errors until one is observed, since a program that names its stores does not use it.
func (s *store) collect(d *descs, to chan<- prometheus.Metric) {
	for source := range s.durations {
		if metric := s.durations[source].metric(d.durations, s.name, core.Source(source).String()); metric != nil {
			to <- metric
		}
	}
	for i := range s.errors {
		if n := s.errors[i].Load(); n > 0 || s.name != "" {
			to <- count(d.errors, n, s.name, kindLabels[i])
		}
	}
}

func count(desc *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}

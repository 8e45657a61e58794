// Package metrics counts the decisions of limiters and reads the Stats of stores, for the packages that export them to
// a monitoring system.
package metrics

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/regions"
	"github.com/sashlimit/sash/internal/errs"
)

// Collector counts decisions, errors and notices. It is safe for concurrent use.
type Collector struct {
	decisions, failures, notices *counts

	byRoute         bool
	decisionsMetric Metric

	mu     sync.Mutex // guards watched
	stores []watchedStore
}

// watchedStore is a store whose Stats are read with the metrics.
type watchedStore struct {
	name string
	read func(Emit)
}

// New returns an empty Collector. It emits all outcomes of a limiter from its first decision on, also with a count of
// 0, up to the given number of counters.
func New(byRoute bool, zeros int) *Collector {
	t := &Collector{
		decisions: newCounts(int(core.OutcomeShadowRefused)+1, zeros),
		failures:  newCounts(len(kindNames), 0),
		notices:   newCounts(1, 0),
		byRoute:   byRoute, decisionsMetric: decisionsMetric,
	}
	if byRoute {
		t.decisionsMetric.Labels = append(decisionsMetric.Labels[:4:4], "route")
	}
	return t
}

// Store adds the error counters of a store, so that a rate includes the first failure, and returns the store's name as
// emitted. The counters of the unnamed store appear with its first error, since a program that names its stores does
// not use it.
func (t *Collector) Store(name string) string {
	if name != "" {
		t.failures.row(key{name}, true)
	}
	return Clean(name)
}

// Observe counts a decision of a limiter on the store of the given name, and returns the kind
// of error for which the store failed. A peek admits and refuses no request: only
// its error is counted.
func (t *Collector) Observe(store string, e *core.Event) Kind {
	if !e.Peek {
		k := key{e.Name, e.Rule}
		if t.byRoute {
			k[2] = e.Label
		}
		t.decisions.add(k, int(e.Outcome()))
	}
	failed := kindOf(&e.Decision)
	if failed != NoError {
		t.failures.add(key{store}, int(failed))
	}
	return failed
}

// IsMeasured reports whether e has the duration of a decision by a store or a fallback.
func IsMeasured(e *core.Event) bool {
	return e.Elapsed > 0 && e.Decision.Source != core.SourceNone && e.Decision.Source < core.SourceSkipped
}

// Notice counts a notice.
func (t *Collector) Notice(n core.Notice) { t.notices.add(key{n.Name, n.Rule, n.Code}, 0) }

// Watch adds the metrics of a store's Stats.
func (t *Collector) Watch(name string, store core.Store) error {
	name = Clean(name)
	if errs.IsNil(store) {
		return fmt.Errorf("sash: Watch(%q, nil): give the store of Config.Store", name)
	}
	w := watchedStore{name: name}
	switch s := store.(type) {
	case interface{ Stats() memstore.Stats }:
		w.read = func(emit Emit) { emitStats(emit, name, memoryMetrics, s.Stats()) }
	case interface{ Stats() redisstore.Stats }:
		w.read = func(emit Emit) {
			stats := s.Stats()
			emitStats(emit, name, redisMetrics, stats)
			emitBreakers(emit, name, stats.Breakers)
		}
	case interface{ Stats() regions.Stats }:
		w.read = func(emit Emit) {
			stats := s.Stats()
			emitStats(emit, name, regionsMetrics, stats)
			emitRegions(emit, name, stats.Regions)
		}
	default:
		return fmt.Errorf("sash: Watch(%q, ...): a %T has no Stats: "+
			"give a *memstore.Store, a *redisstore.Store or a *regions.Store", name, store)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.stores {
		if other.name == name {
			return fmt.Errorf("sash: Watch(%q, ...): a store of that name is watched already: "+
				"give each store its own name", name)
		}
	}
	t.stores = append(t.stores, w)
	return nil
}

// Emit receives a value of a metric, with the values of its labels.
type Emit func(m *Metric, value float64, labels ...string)

// Read emits all metrics. It is safe for concurrent use.
func (t *Collector) Read(emit Emit) {
	for _, c := range t.decisions.all() {
		o := core.Outcome(c.index)
		labels := []string{c.key[0], c.key[1], o.String(), strconv.FormatBool(o.IsServed())}
		if t.byRoute {
			labels = append(labels, c.key[2])
		}
		emit(&t.decisionsMetric, c.value(), labels...)
	}
	for _, c := range t.failures.all() {
		emit(&failures, c.value(), c.key[0], kindNames[c.index])
	}
	for _, c := range t.notices.all() {
		emit(&notices, c.value(), c.key[:]...)
	}
	t.mu.Lock()
	all := t.stores
	t.mu.Unlock()
	for _, w := range all {
		w.read(emit)
	}
}

func (c counter) value() float64 { return float64(c.n[c.index].Load()) }

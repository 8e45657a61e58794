// Package metrics counts what limiters decide, and reads what stores say about themselves, for
// the packages that tell a monitoring system.
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

// Tally counts decisions, errors and notices. It is safe for concurrent use.
type Tally struct {
	decisions, failures, notices *counts

	byRoute         bool
	decisionsMetric Metric

	mu      sync.Mutex // guards watched
	watched []watched
}

// watched is a store that is asked for its Stats when metrics are read.
type watched struct {
	name string
	read func(Tell)
}

// New returns an empty Tally. The outcomes of a limiter are told from its first decision on,
// as 0, while no more than so many zeros are told.
func New(byRoute bool, zeros int) *Tally {
	t := &Tally{
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

// Store begins to tell the errors of the store of the given name, so that a rate knows the
// first failure too, and returns the name as it is told. The unnamed store has no errors
// until one is counted, since a program that names its stores does not use it.
func (t *Tally) Store(name string) string {
	if name != "" {
		t.failures.row(key{name}, true)
	}
	return Clean(name)
}

// Observe counts a decision of a limiter on the store of the given name, and returns the kind
// of error for which the store failed. A peek admits and refuses no request: only
// its error is counted.
func (t *Tally) Observe(store string, e *core.Event) Kind {
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

// Measured reports whether e has the time of a decision for which something was asked.
func Measured(e *core.Event) bool {
	return e.Elapsed > 0 && e.Decision.Source != core.SourceNone && e.Decision.Source < core.SourceSkipped
}

// Notice counts a notice.
func (t *Tally) Notice(n core.Notice) { t.notices.add(key{n.Name, n.Rule, n.Code}, 0) }

// Watch adds the metrics of what a store says about itself.
func (t *Tally) Watch(name string, store core.Store) error {
	name = Clean(name)
	if errs.IsNil(store) {
		return fmt.Errorf("sash: Watch(%q, nil): give the store of Config.Store", name)
	}
	w := watched{name: name}
	switch s := store.(type) {
	case interface{ Stats() memstore.Stats }:
		w.read = func(tell Tell) { tellStats(tell, name, memory, s.Stats()) }
	case interface{ Stats() redisstore.Stats }:
		w.read = func(tell Tell) {
			stats := s.Stats()
			tellStats(tell, name, redis, stats)
			tellBreakers(tell, name, stats.Breakers)
		}
	case interface{ Stats() regions.Stats }:
		w.read = func(tell Tell) {
			stats := s.Stats()
			tellStats(tell, name, regional, stats)
			tellRegions(tell, name, stats.Regions)
		}
	default:
		return fmt.Errorf("sash: Watch(%q, ...): a %T has no Stats: "+
			"give a *memstore.Store, a *redisstore.Store or a *regions.Store", name, store)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.watched {
		if other.name == name {
			return fmt.Errorf("sash: Watch(%q, ...): a store of that name is watched already: "+
				"give each store a name of its own", name)
		}
	}
	t.watched = append(t.watched, w)
	return nil
}

// Tell receives a value of a metric, with the values of its labels.
type Tell func(m *Metric, value float64, labels ...string)

// Read tells all metrics. Several readers may call it at once.
func (t *Tally) Read(tell Tell) {
	for _, c := range t.decisions.all() {
		o := core.Outcome(c.index)
		labels := []string{c.key[0], c.key[1], o.String(), strconv.FormatBool(o.IsServed())}
		if t.byRoute {
			labels = append(labels, c.key[2])
		}
		tell(&t.decisionsMetric, c.value(), labels...)
	}
	for _, c := range t.failures.all() {
		tell(&failures, c.value(), c.key[0], kindNames[c.index])
	}
	for _, c := range t.notices.all() {
		tell(&notices, c.value(), c.key[:]...)
	}
	t.mu.Lock()
	all := t.watched
	t.mu.Unlock()
	for _, w := range all {
		w.read(tell)
	}
}

func (c counter) value() float64 { return float64(c.n[c.index].Load()) }

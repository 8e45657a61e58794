package sashotel

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
)

const (
	// maxSeries bounds how many limiters, rules and routes are told apart. Twice as
	// many exist at most: beyond the bound each rule has a series for all its other
	// routes.
	maxSeries = 1000

	// maxZeros bounds how many counters there are when a new series still reports the
	// outcomes that have not happened. It leaves half of the 2,000 sets of attributes
	// that the SDK tells apart to outcomes that happen.
	maxZeros = 1000

	// scanned is how many series are compared one by one before a map is asked. To
	// compare a few keys is cheaper than to hash one.
	scanned = 8
)

// seriesKey names a series. route is empty unless routes are asked for.
type seriesKey struct{ limiter, rule, route string }

// series counts the decisions of a rule. An outcome is reported from its first decision,
// or, where reported is set, from the first decision of the series.
type series struct {
	seriesKey
	reported  bool
	decisions [outcomes]atomic.Int64
}

// attributes returns the attributes of the decisions with an outcome.
func (s *series) attributes(o outcome) []attribute.KeyValue {
	return append(routeAttributes(s.route),
		limiterKey.String(s.limiter), ruleKey.String(s.rule),
		outcomeKey.String(outcomeAttributes[o].outcome), allowedKey.Bool(outcomeAttributes[o].allowed))
}

// seriesTable holds all series. It does not change once others can see it.
type seriesTable struct {
	first []*series // the first of all, up to scanned
	all   map[seriesKey]*series
}

// find returns the series of k, or nil.
func (t *seriesTable) find(k seriesKey) *series {
	for _, s := range t.first {
		if s.seriesKey == k {
			return s
		}
	}
	if len(t.all) <= scanned {
		return nil
	}
	return t.all[k]
}

// counted returns the key under which k is counted: k itself while there is room, else
// the other routes of its rule, or the other rules.
func (t *seriesTable) counted(k seriesKey) seriesKey {
	if len(t.all) < maxSeries || t.find(k) != nil {
		return k
	}
	k.route = otherText
	if len(t.all) < 2*maxSeries-1 || t.find(k) != nil {
		return k
	}
	return seriesKey{otherText, otherText, otherText}
}

// with returns a table that holds s too.
func (t *seriesTable) with(s *series) *seriesTable {
	next := &seriesTable{first: t.first, all: maps.Clone(t.all)}
	next.all[s.seriesKey] = s
	if len(t.first) < scanned {
		next.first = append(t.first[:len(t.first):len(t.first)], s)
	}
	return next
}

// seriesSet finds and makes series. It is safe for concurrent use.
type seriesSet struct {
	table    atomic.Pointer[seriesTable]
	mu       sync.Mutex // held while a series is added
	counters counters
}

func newSeriesSet() *seriesSet {
	s := &seriesSet{}
	s.table.Store(&seriesTable{all: map[seriesKey]*series{}})
	return s
}

// add counts a decision.
func (s *seriesSet) add(k seriesKey, o outcome) {
	counted := s.table.Load().find(k)
	if counted == nil {
		counted = s.ofUnknown(k)
	}
	if counted.decisions[o].Add(1) == 1 && !counted.reported {
		s.counters.report(&counted.decisions[o], counted.attributes(o)...)
	}
}

// ofUnknown returns the series of a k that the table does not hold as it is.
func (s *seriesSet) ofUnknown(k seriesKey) *series {
	k = seriesKey{strings.Clone(clean(k.limiter)), strings.Clone(clean(k.rule)), strings.Clone(clean(k.route))}
	t := s.table.Load()
	if found := t.find(t.counted(k)); found != nil {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.table.Load()
	k = t.counted(k)
	if found := t.find(k); found != nil {
		return found
	}
	added := &series{seriesKey: k, reported: s.counters.len()+int(outcomes) <= maxZeros}
	if added.reported {
		for o := range outcomes {
			s.counters.report(&added.decisions[o], added.attributes(o)...)
		}
	}
	s.table.Store(t.with(added))
	return added
}

package sashprom

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxSeries bounds how many limiters, rules and routes are told apart. Twice as
	// many exist at most: beyond the bound each rule has a series for all its other
	// routes.
	maxSeries = 1000

	// maxLabel bounds the bytes of a route.
	maxLabel = 256

	// otherLabel stands for what exceeds maxSeries.
	otherLabel = "other"

	// scanned is how many series are compared one by one before a map is asked. To
	// compare a few keys is cheaper than to hash one.
	scanned = 8
)

// seriesKey names a series. route is empty unless routes are asked for.
type seriesKey struct{ limiter, rule, route string }

// series counts the decisions of a rule.
type series struct {
	seriesKey
	decisions [outcomes]atomic.Uint64
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
	k.route = otherLabel
	if len(t.all) < 2*maxSeries-1 || t.find(k) != nil {
		return k
	}
	return seriesKey{otherLabel, otherLabel, otherLabel}
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
	table atomic.Pointer[seriesTable]
	mu    sync.Mutex // held while a series is added
}

func newSeriesSet() *seriesSet {
	s := &seriesSet{}
	s.table.Store(&seriesTable{all: map[seriesKey]*series{}})
	return s
}

// of returns the series that k is counted in.
func (s *seriesSet) of(k seriesKey) *series {
	if found := s.table.Load().find(k); found != nil {
		return found
	}
	return s.ofUnknown(k)
}

// ofUnknown returns the series of a k that the table does not hold as it is.
func (s *seriesSet) ofUnknown(k seriesKey) *series {
	k = seriesKey{cleanLabel(k.limiter), cleanLabel(k.rule), cleanLabel(k.route)}
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
	added := &series{seriesKey: k}
	s.table.Store(t.with(added))
	return added
}

// cleanLabel returns label as Prometheus takes it: UTF-8, and no longer than maxLabel
// bytes. The result holds no memory of a longer string.
func cleanLabel(label string) string {
	return strings.Clone(strings.ToValidUTF8(label[:min(len(label), maxLabel)], "\uFFFD"))
}

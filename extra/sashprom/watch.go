package sashprom

import (
	"fmt"
	"reflect"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
)

// Watch makes the metrics of what a store says about itself. The store is a
// *[memstore.Store], a *[redisstore.Store], or a type around one of them that has its
// method Stats. Watch panics if it is none of these, if it is nil, or if a store of
// that name is watched already.
func (m *Metrics) Watch(name string, store core.Store) {
	if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic(fmt.Sprintf("sashprom: Watch(%q, nil): give the store of Config.Store", name))
	}
	switch s := store.(type) {
	case interface{ Stats() memstore.Stats }:
		m.WatchFunc(name, func() Stats { stats := s.Stats(); return Stats{Memory: &stats} })
	case interface{ Stats() redisstore.Stats }:
		m.WatchFunc(name, func() Stats { stats := s.Stats(); return Stats{Redis: &stats} })
	default:
		panic(fmt.Sprintf("sashprom: Watch(%q, ...): a %T has no Stats of memstore or redisstore: give WatchFunc "+
			"a function that makes them", name, store))
	}
}

// WatchFunc is Watch for other stores. stats is called once in each scrape, by several
// goroutines if several scrapes are under way. WatchFunc panics if stats is nil, or if a
// store of that name is watched already.
func (m *Metrics) WatchFunc(name string, stats func() Stats) {
	if stats == nil {
		panic(fmt.Sprintf("sashprom: WatchFunc(%q, nil): give a function that returns the store's Stats", name))
	}
	name = cleanLabel(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watched[name] != nil {
		panic(fmt.Sprintf("sashprom: a store %q is watched already: give each store a name of its own", name))
	}
	m.watched[name] = stats
}

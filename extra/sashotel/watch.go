package sashotel

import (
	"fmt"
	"reflect"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
)

// watched is a store that is asked for its Stats when metrics are read.
type watched struct {
	name   string
	report func(*instruments, metric.Observer)
}

// Watch adds the metrics of what a store says about itself. The store is a
// *[memstore.Store], a *[redisstore.Store], or a type around one of them that has its
// method Stats. It is asked once in each reading of the metrics. Watch fails if the store
// is none of these, if it is nil, or if a store of that name is watched already.
func (t *Telemetry) Watch(name string, store core.Store) error {
	name = clean(name)
	if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("sash: Watch(%q, nil) of sashotel: give the store of Config.Store", name)
	}
	of := metric.WithAttributeSet(attribute.NewSet(storeKey.String(name)))
	var report func(*instruments, metric.Observer)
	switch s := store.(type) {
	case interface{ Stats() memstore.Stats }:
		report = func(i *instruments, o metric.Observer) {
			stats := s.Stats()
			observe(o, i.memory, &stats, of)
		}
	case interface{ Stats() redisstore.Stats }:
		report = func(i *instruments, o metric.Observer) {
			stats := s.Stats()
			observe(o, i.redis, &stats, of)
			for b := range stats.Breakers {
				i.breaker.observe(o, &stats.Breakers[b], name)
			}
		}
	default:
		return fmt.Errorf("sash: Watch(%q, ...) of sashotel: a %T has no Stats: "+
			"give a *memstore.Store or a *redisstore.Store", name, store)
	}
	return t.watch(watched{name, report})
}

// watch adds w, unless its name is taken.
func (t *Telemetry) watch(w watched) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.watched {
		if other.name == w.name {
			return fmt.Errorf("sash: Watch(%q, ...) of sashotel: a store of that name is watched already: "+
				"give each store a name of its own", w.name)
		}
	}
	t.watched = append(t.watched, w)
	return nil
}

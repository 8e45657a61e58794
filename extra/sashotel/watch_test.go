package sashotel_test

import (
	"maps"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// numbers returns the metrics of a store that have no other attributes, by name.
func (w watcher) numbers(t *testing.T, store string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for name, m := range w.metrics(t) {
		if value, ok := pointsOf(t, m)["sash.store="+store]; ok {
			values[name] = value
		}
	}
	return values
}

// fixed is a store whose Stats are as given.
type fixed[S any] struct {
	core.Store
	stats S
}

func (f fixed[S]) Stats() S { return f.stats }

// TestWatchRedis: each number of a redisstore has its metric, and the breaker of each of
// its servers has four.
func TestWatchRedis(t *testing.T) {
	w := watch(t)
	store := fixed[redisstore.Stats]{stats: redisstore.Stats{
		Breakers: []redisstore.Breaker{
			{Server: "", State: redisstore.StateClosed},
			{Server: "[::1]:6379", State: redisstore.StateHalfOpen, Changed: time.UnixMilli(3500), Trips: 2,
				FailingSince: time.UnixMilli(1500)},
			{Server: "FailoverClient", State: redisstore.StateOpen, Trips: 1},
		},
		Batches: 1, BatchedRequests: 2, LargestBatch: 3, Scripts: 4, NoScripts: 5,
		Refusals: 6, RefusedFromMemory: 7, Leases: 8, UnspentUnits: 9,
	}}
	if err := w.Watch("redis", store); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"sash.batches": 1, "sash.batched_requests": 2, "sash.batch.max_requests": 3, "sash.scripts": 4,
		"sash.noscript_replies": 5, "sash.remembered_refusals": 6, "sash.refused_from_memory": 7,
		"sash.leases": 8, "sash.lease.unspent_units": 9,
	}
	if got := w.numbers(t, "redis"); !maps.Equal(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
	const unknown, local, failover = "sash.store=redis server.address=",
		"sash.store=redis server.address=::1 server.port=6379", "sash.store=redis server.address=FailoverClient"
	w.wantPoints(t, "sash.breaker.state", map[string]float64{
		"sash.breaker.state=closed " + unknown:  1,
		"sash.breaker.state=half-open " + local: 1,
		"sash.breaker.state=open " + failover:   1,
	})
	if got := w.points(t, "sash.breaker.state"); len(got) != 9 {
		t.Errorf("states %v, want three of each server", got)
	}
	w.wantPoints(t, "sash.breaker.trips", map[string]float64{local: 2, failover: 1})
	w.wantPoints(t, "sash.breaker.change_timestamp", map[string]float64{local: 3.5})
	w.wantPoints(t, "sash.breaker.failing_since_timestamp", map[string]float64{local: 1.5})
}

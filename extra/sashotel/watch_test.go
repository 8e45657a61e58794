package sashotel_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// fixed is a store whose Stats are as given.
type fixed[S any] struct {
	core.Store
	stats S
}

func (f fixed[S]) Stats() S { return f.stats }

// TestWatchRedis: a number of a store has its metric, and the breaker of each of its servers has four. Package tally
// names all numbers, and the tests of sashprom read them.
func TestWatchRedis(t *testing.T) {
	w := watch(t)
	store := fixed[redisstore.Stats]{stats: redisstore.Stats{
		Breakers: []redisstore.Breaker{
			{Server: "", State: redisstore.StateClosed},
			{Server: "[::1]:6379", State: redisstore.StateHalfOpen, Changed: time.UnixMilli(3500), Trips: 2,
				FailingSince: time.UnixMilli(1500)},
			{Server: "FailoverClient", State: redisstore.StateOpen, Trips: 1},
		},
		UnspentUnits: 9,
	}}
	if err := w.Watch("redis", store); err != nil {
		t.Fatal(err)
	}
	w.wantPoints(t, "sash.lease.unspent_units", map[string]float64{"sash.store=redis": 9})
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

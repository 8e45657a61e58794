package regions

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestFarRegions: strict regions of which two are a round trip of 150 ms away spill over at a Config.Timeout of three
// round trips, as docs/regions.md has it. One region's share is a third: a client that asks in one region gets the
// whole limit, since the connections to the others are made though they take longer than a request may wait.
func TestFarRegions(t *testing.T) {
	const n, trip, timeout = 100, 150 * time.Millisecond, 500 * time.Millisecond
	stores := map[string]core.Store{}
	for _, name := range []string{"ap", "eu", "us"} {
		addr := redistest.Start(t).Addr()
		if name != "eu" {
			addr = redistest.StartWay(t, addr, func() time.Duration { return trip / 2 }).Addr()
		}
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { rdb.Close() })
		stores[name] = redisstore.New(rdb)
	}
	store := core.Must(New(Config{Here: "eu", Stores: stores, Strict: true}))
	l := core.Must(core.New(core.Config{
		Name: "api", Store: store, Limits: []core.Limit{core.PerHour(n)}, Timeout: timeout, Observer: core.Silent,
	}))
	var mu sync.Mutex
	by := map[string]int{}
	admitted := 0
	var group sync.WaitGroup
	for range 2 * n { // in 4 s
		group.Go(func() {
			d := l.Allow(context.Background(), "client")
			mu.Lock()
			defer mu.Unlock()
			if d.Allowed && d.Err == nil {
				admitted++
				by[d.Region]++
			}
		})
		time.Sleep(20 * time.Millisecond)
	}
	group.Wait()
	t.Logf("%d of %d admitted: %v", admitted, n, by)
	if admitted > n || admitted < n*3/4 || len(by) != 3 { // a late reply leaves a charge
		t.Errorf("%d of %d admitted, %v; want nearly all, by three regions", admitted, n, by)
	}
}

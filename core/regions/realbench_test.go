package regions

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// farStores returns the stores of three regions, of which "ap" is near, and the ways to the others.
func farStores(b *testing.B) (map[string]core.Store, []*redistest.Way) {
	stores := map[string]core.Store{"ap": redisstore.New(redistest.Start(b).Client(b))}
	var ways []*redistest.Way
	for _, name := range []string{"eu", "us"} {
		way := redistest.StartWay(b, redistest.Start(b).Addr(), func() time.Duration { return 0 })
		rdb := redis.NewClient(&redis.Options{Addr: way.Addr()})
		b.Cleanup(func() { rdb.Close() })
		stores[name], ways = redisstore.New(rdb), append(ways, way)
	}
	return stores, ways
}

// BenchmarkSilentRegions measures decisions on the own Redis: without regions and beside two that are silent, in turn.
func BenchmarkSilentRegions(b *testing.B) {
	stores, ways := farStores(b)
	for _, way := range ways {
		way.Hold(true, true)
	}
	limit := core.PerDay(core.MaxLogRequests)
	config := core.Config{Name: "without", Store: stores["ap"], Limits: []core.Limit{limit}, Observer: core.Silent}
	without := core.Must(core.New(config))
	store := newStore(b, Config{Here: "ap", Stores: stores})
	config.Name, config.Store = "beside", store
	beside := core.Must(core.New(config))
	redistest.WaitFor(b, "silent regions", func() error {
		beside.AllowN(b.Context(), "k", limit.Requests/1000) // so that the client is looked at
		for _, r := range store.Stats().Regions {
			if !r.Here && r.SilentSince.IsZero() {
				return errors.New("not yet")
			}
		}
		return nil
	})
	var took [2][]time.Duration
	for b.Loop() {
		for i, l := range []*core.Limiter{without, beside} {
			began := time.Now()
			if d := l.Allow(b.Context(), "k"); d.Err != nil || !d.Allowed {
				b.Fatalf("%+v", d)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for name, part := range map[string]int{"p50": 50, "p99": 99} {
		var at [2]float64
		for i := range took {
			slices.Sort(took[i])
			at[i] = float64(took[i][len(took[i])*part/100].Nanoseconds()) / 1000
		}
		b.ReportMetric(at[0], name+"-without-µs")
		b.ReportMetric(at[1], name+"-beside-µs")
		b.ReportMetric(at[1]/at[0], name+"-ratio")
	}
}

// BenchmarkLookTraffic measures the bytes to and from another region, in both directions, while 65,536 busy clients ask
// all the time. An operation lasts a second.
func BenchmarkLookTraffic(b *testing.B) {
	stores, ways := farStores(b)
	store := newStore(b, Config{Here: "ap", Stores: stores})
	l := core.Must(core.New(core.Config{
		Name: "api", Store: store, Limits: []core.Limit{core.PerHour(100)}, Timeout: 20 * time.Second,
		Observer: core.Silent,
	}))
	ask := func(until func(round int) bool) {
		var group sync.WaitGroup
		const askers = 64
		for asker := range askers {
			group.Go(func() {
				for i := asker; !until(i / defaultMaxClients); i += askers {
					if d := l.AllowN(b.Context(), fmt.Sprintf("client-%05d", i%defaultMaxClients), 3); d.Err != nil {
						b.Error(d.Err)
						return
					}
				}
			})
		}
		group.Wait()
	}
	ask(func(round int) bool { return round > 0 })
	before := ways[0].Bytes() + ways[1].Bytes()
	for b.Loop() {
		began := time.Now()
		ask(func(int) bool { return time.Since(began) > time.Second })
	}
	b.ReportMetric(float64(ways[0].Bytes()+ways[1].Bytes()-before)/2e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(float64(store.Stats().Clients), "clients")
}

package sashprom_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/regions"
	"github.com/sashlimit/sash/extra/sashprom"
)

// fixed is a store whose Stats are as given.
type fixed[S any] struct {
	core.Store
	stats S
}

func (f fixed[S]) Stats() S { return f.stats }

// watch adds the metrics of a store.
func watch(t *testing.T, m *sashprom.Metrics, name string, store core.Store) {
	t.Helper()
	if err := m.Watch(name, store); err != nil {
		t.Fatal(err)
	}
}

// TestWatchMemory: the metrics of a store in memory are its Stats.
func TestWatchMemory(t *testing.T) {
	m := core.Must(sashprom.New())
	watch(t, m, "memory", fixed[memstore.Stats]{stats: memstore.Stats{
		Bytes: 1, MaxBytes: 2, Slots: 3, Limits: 4, Evictions: 5, SketchOnly: 6,
		RefusedEvicted: 7, RefusedNewcomers: 8, Full: 9,
	}})
	wantLines(t, scrape(t, m),
		`sash_store_memory_usage_bytes{store="memory"} 1`,
		`sash_store_memory_limit_bytes{store="memory"} 2`,
		`sash_store_slots{store="memory"} 3`,
		`sash_store_limits{store="memory"} 4`,
		`sash_store_evictions_total{store="memory"} 5`,
		`sash_store_sketch_only_total{store="memory"} 6`,
		`sash_store_refused_evicted_total{store="memory"} 7`,
		`sash_store_refused_newcomers_total{store="memory"} 8`,
		`sash_store_full_total{store="memory"} 9`)
}

// TestWatchRedis: the metrics of a store in Redis are its Stats. A server that a store
// gives twice does not make the scrape fail.
func TestWatchRedis(t *testing.T) {
	m := core.Must(sashprom.New())
	watch(t, m, "redis", fixed[redisstore.Stats]{stats: redisstore.Stats{
		Breakers: []redisstore.Breaker{
			{Server: "a:1", State: redisstore.StateOpen, Trips: 3,
				Changed: time.Unix(1_000, 500_000_000), FailingSince: time.Unix(900, 0)},
			{Server: "a:1", State: redisstore.StateClosed},
			{Server: "b:1", State: redisstore.StateClosed},
		},
		Batches: 1, BatchedRequests: 2, LargestBatch: 3, Scripts: 4, NoScripts: 5,
		Refusals: 6, RefusedFromMemory: 7, Leases: 8, UnspentUnits: 9,
	}})
	scraped := scrape(t, m)
	wantLines(t, scraped,
		`sash_breaker_state{server="a:1",state="open",store="redis"} 1`,
		`sash_breaker_state{server="a:1",state="half-open",store="redis"} 0`,
		`sash_breaker_state{server="a:1",state="closed",store="redis"} 0`,
		`sash_breaker_state{server="b:1",state="closed",store="redis"} 1`,
		`sash_breaker_change_timestamp_seconds{server="a:1",store="redis"} 1000.5`,
		`sash_breaker_failing_since_timestamp_seconds{server="a:1",store="redis"} 900`,
		`sash_breaker_trips_total{server="a:1",store="redis"} 3`,
		`sash_breaker_trips_total{server="b:1",store="redis"} 0`,
		`sash_batches_total{store="redis"} 1`,
		`sash_batched_requests_total{store="redis"} 2`,
		`sash_batch_max_requests{store="redis"} 3`,
		`sash_scripts_total{store="redis"} 4`,
		`sash_noscript_replies_total{store="redis"} 5`,
		`sash_remembered_refusals{store="redis"} 6`,
		`sash_refused_from_memory_total{store="redis"} 7`,
		`sash_leases{store="redis"} 8`,
		`sash_lease_unspent_units{store="redis"} 9`)
	if got := samples(scraped, "sash_breaker_"); len(got) != 2*3+1+1+2 {
		t.Errorf("breakers %q, want two servers with three states and one of them with times", got)
	}
}

// TestWatchRegions: the metrics of a store over regions are its Stats.
func TestWatchRegions(t *testing.T) {
	m := core.Must(sashprom.New())
	watch(t, m, "world", fixed[regions.Stats]{stats: regions.Stats{Clients: 1, Overdue: 2, Regions: []regions.Region{
		{Name: "eu", Here: true, Latest: time.Unix(900, 0)}, {Name: "us", SilentSince: time.Unix(800, 0), Spilled: 3},
	}}})
	wantLines(t, scrape(t, m),
		`sash_region_clients{store="world"} 1`,
		`sash_region_overdue{store="world"} 2`,
		`sash_region_up{region="eu",store="world"} 1`,
		`sash_region_up{region="us",store="world"} 0`,
		`sash_region_answer_timestamp_seconds{region="eu",store="world"} 900`,
		`sash_region_spilled_total{region="us",store="world"} 3`)
}

// TestMisuse: what the program gives wrong is said when it starts.
func TestMisuse(t *testing.T) {
	const want = `sash: Watch("memory", nil): give the store of Config.Store`
	if err := core.Must(sashprom.New()).Watch("memory", nil); err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
	if _, err := sashprom.New(nil); err == nil || err.Error() != "sash: option 1 of sashprom.New is nil: leave it out" {
		t.Errorf("got the error %v, want one about option 1", err)
	}
}

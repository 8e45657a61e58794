package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// checkSent compares what a store says that it has sent with what the servers have received since their start, and
// returns the first.
func checkSent(t *testing.T, store *redisstore.Store, servers ...*redistest.Server) redisstore.Stats {
	t.Helper()
	got := store.Stats()
	var scripts, unknown int
	for _, server := range servers {
		rdb := admin(t, server.Addr())
		scripts += calls(t, rdb, "evalsha") + calls(t, rdb, "eval")
		for line := range strings.SplitSeq(rdb.Info(ctx, "errorstats").Val(), "\r\n") {
			if n, ok := strings.CutPrefix(line, "errorstat_NOSCRIPT:count="); ok {
				var of int
				if _, err := fmt.Sscan(n, &of); err != nil {
					t.Fatal(err)
				}
				unknown += of
			}
		}
	}
	if got.Scripts != uint64(scripts) || got.NoScripts != uint64(unknown) {
		t.Errorf("%d scripts, %d of them unknown, want %d, %d", got.Scripts, got.NoScripts, scripts, unknown)
	}
	return got
}

// TestStats: each decision is one round trip and one script, which reads the time once, whatever the number of limits.
// What one caller sends is a batch each; a refusal is remembered and answers the next requests.
func TestStats(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t), redisstore.WithoutSharedScripts())
	begun := store.Stats()
	limits := []core.Limit{core.PerHour(5), core.PerDay(100), core.PerMinute(100).Using(core.SlidingCounter)}
	l := limiter(t, core.Config{Store: store, Limits: limits, Timeout: patient})
	answers := map[core.Source]uint64{}
	for range 20 {
		answers[l.Allow(ctx, "k").Source]++
	}
	got := checkSent(t, store, server)
	if len(got.Breakers) != 1 || len(begun.Breakers) != 1 || got.Breakers[0] != begun.Breakers[0] {
		t.Errorf("breakers %+v, %+v at first, want the same one", got.Breakers, begun.Breakers)
	}
	b := got.Breakers[0]
	closed := redisstore.Breaker{Server: server.Addr(), State: redisstore.StateClosed, Changed: b.Changed}
	if b != closed || b.Changed.IsZero() {
		t.Errorf("%+v, want the breaker of %s, closed", b, server.Addr())
	}
	counted := answers[core.SourceCounted]
	want := redisstore.Stats{
		Breakers: got.Breakers, Batches: counted, BatchRequests: counted, LargestBatch: 1,
		Scripts: counted + 1, NoScripts: 1, Refusals: 1, RefusedFromMemory: answers[core.SourceCached],
	}
	times := calls(t, admin(t, server.Addr()), "time")
	if fmt.Sprint(got) != fmt.Sprint(want) || want.RefusedFromMemory == 0 || times != int(counted) {
		t.Errorf("\n got %+v\nwant %+v; %d scripts read the time", got, want, times)
	}
}

// TestStatsOfLeases: a lease that is held has units, and each request spends its cost.
func TestStatsOfLeases(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	store := redisstore.New(rdb, redisstore.WithLease(1000, time.Minute))
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(100_000)}, Timeout: patient})
	if got := store.Stats(); got.Leases != 0 || got.UnspentUnits != 0 {
		t.Errorf("%+v before any request", got)
	}
	redistest.WaitFor(t, "a lease of 10 units", func() error {
		if l.Allow(ctx, "k"); store.Stats().UnspentUnits < 10 {
			return errors.New("none")
		}
		return nil
	})
	before := store.Stats()
	if d := l.AllowN(ctx, "k", 7); d.Source != core.SourceLeased {
		t.Fatalf("%+v, want it from the lease", d)
	}
	if got := store.Stats(); got.Leases != 1 || got.UnspentUnits != before.UnspentUnits-7 {
		t.Errorf("%d leases with %d units, want 1 with %d", got.Leases, got.UnspentUnits, before.UnspentUnits-7)
	}
}

package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// checkSent compares what a store says that it has sent with what the servers have
// received since their start.
func checkSent(t *testing.T, got redisstore.Stats, servers ...*redistest.Server) {
	t.Helper()
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
	if got.Scripts != uint64(scripts) || got.NoScripts != uint64(unknown) || unknown == 0 {
		t.Errorf("%d scripts, %d of them unknown, want %d, %d", got.Scripts, got.NoScripts, scripts, unknown)
	}
}

// TestStats: what one caller sends is a batch each; a refusal is remembered and answers
// the next requests, also in an outage.
func TestStats(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t))
	begun := store.Stats()
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(5)}, Timeout: patient})
	answers := map[core.Source]uint64{}
	for range 20 {
		answers[l.Allow(ctx, "k").Source]++
	}
	got := store.Stats()
	checkSent(t, got, server)
	if len(got.Breakers) != 1 || len(begun.Breakers) != 1 || got.Breakers[0] != begun.Breakers[0] {
		t.Errorf("breakers %+v, %+v at first, want the same one", got.Breakers, begun.Breakers)
	}
	b := got.Breakers[0]
	closed := redisstore.Breaker{Server: server.Addr(), State: redisstore.StateClosed, Changed: b.Changed}
	if b != closed || b.Changed.IsZero() {
		t.Errorf("%+v, want the breaker of %s, closed", b, server.Addr())
	}
	want := redisstore.Stats{
		Breakers: got.Breakers,
		Batches:  answers[core.Counted], BatchedRequests: answers[core.Counted], LargestBatch: 1,
		Scripts: answers[core.Counted] + 1, NoScripts: 1,
		Refusals: 1, RefusedFromMemory: answers[core.Remembered],
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || want.RefusedFromMemory == 0 {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	server.Kill()
	for start := time.Now(); time.Since(start) < redisstore.AskAgain*5/4; {
		answers[l.Allow(ctx, "k").Source]++
	}
	got = store.Stats()
	if got.RefusedFromMemory != answers[core.Remembered] {
		t.Errorf("%d refused from memory, want %d", got.RefusedFromMemory, answers[core.Remembered])
	}
}

// TestStatsOfBatches: requests that wait together are counted as such.
func TestStatsOfBatches(t *testing.T) {
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t))
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1000)}, Timeout: patient})
	if d := l.Allow(ctx, "k"); d.Err != nil {
		t.Fatal(d.Err)
	}
	before := store.Stats()
	requests := make([]func() core.Decision, 60)
	for i := range requests {
		requests[i] = func() core.Decision { return l.Allow(ctx, "k") }
	}
	for _, d := range together(t, server, requests) {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
	}
	got := store.Stats()
	checkSent(t, got, server)
	batches, batched := got.Batches-before.Batches, got.BatchedRequests-before.BatchedRequests
	if batched != 60 || batches != got.Scripts-before.Scripts || batches > 30 {
		t.Errorf("%d requests in %d batches, want 60 in %d", batched, batches, got.Scripts-before.Scripts)
	}
	if mean := batched / batches; got.LargestBatch < mean || got.LargestBatch < 2 || got.LargestBatch > 60 {
		t.Errorf("the largest of %d batches had %d requests of %d", batches, got.LargestBatch, batched)
	}
}

// TestStatsOfARing: each shard has a breaker, beside the one for no shard. What is sent
// in pipelines is counted by script.
func TestStatsOfARing(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	servers, ring := startRing(t, 2, time.Hour)
	store := redisstore.New(ring)
	l := closedFor(t, store, patient)
	clients := clientsOf(t, ring, store, l, 1)
	for _, own := range clients {
		redistest.WaitFor(t, "a decision", func() error { return l.Allow(ctx, own[0]).Err })
	}
	got := store.Stats()
	checkSent(t, got, servers...)
	if len(got.Breakers) != 3 || got.Breakers[0].Server != "" || got.Breakers[1].Server > got.Breakers[2].Server {
		t.Fatalf("%+v, want three breakers in order", got.Breakers)
	}
	if got.Batches == 0 || got.BatchedRequests < got.Batches {
		t.Errorf("%d requests in %d batches", got.BatchedRequests, got.Batches)
	}
	servers[0].Pause()
	defer servers[0].Resume()
	failing := time.Now()
	waitOpen(t, closedFor(t, store, 200*time.Millisecond), clients[servers[0].Addr()][0])
	for _, b := range store.Stats().Breakers {
		switch {
		case b.Server == servers[0].Addr():
			if b.State == redisstore.StateClosed || b.Trips != 1 || b.FailingSince.Before(failing) {
				t.Errorf("%+v, want one that is not closed, since %v", b, failing)
			}
		case b.State != redisstore.StateClosed || b.Trips != 0 || !b.FailingSince.IsZero():
			t.Errorf("%+v, want one that has never opened", b)
		}
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
	if d := l.AllowN(ctx, "k", 7); d.Source != core.Leased {
		t.Fatalf("%+v, want it from the lease", d)
	}
	if got := store.Stats(); got.Leases != 1 || got.UnspentUnits != before.UnspentUnits-7 {
		t.Errorf("%d leases with %d units, want 1 with %d", got.Leases, got.UnspentUnits, before.UnspentUnits-7)
	}
}

// TestStatsOfNoStore: a store that was not made has zero Stats.
func TestStatsOfNoStore(t *testing.T) {
	for _, s := range []*redisstore.Store{nil, {}, redisstore.New(nil), redisstore.New((*redis.Client)(nil))} {
		if got := s.Stats(); fmt.Sprint(got) != fmt.Sprint(redisstore.Stats{}) {
			t.Errorf("%+v", got)
		}
	}
}

// TestStatsMeanwhile: Stats while decisions go on has counters that never decrease.
func TestStatsMeanwhile(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t), redisstore.WithLease(10, time.Second))
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(300)}, Timeout: patient})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 600 {
				l.Allow(ctx, fmt.Sprint("client ", i%7))
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for last := (redisstore.Stats{}); ; {
		got := store.Stats()
		if got.Batches < last.Batches || got.BatchedRequests < last.BatchedRequests || got.Scripts < last.Scripts ||
			got.LargestBatch < last.LargestBatch || got.RefusedFromMemory < last.RefusedFromMemory || got.UnspentUnits < 0 {
			t.Errorf("%+v after %+v", got, last)
		}
		last = got
		select {
		case <-done:
			got = store.Stats()
			checkSent(t, got, server)
			if got.Refusals != 7 {
				t.Errorf("%+v: want refusals of 7 clients", got)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

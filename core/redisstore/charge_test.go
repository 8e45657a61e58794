package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestAtMostOneCharge: a thousand replies are lost after the script has run,
// through clients that by default would send it again. What is charged is what
// was delivered, and no decision was delivered twice.
func TestAtMostOneCharge(t *testing.T) {
	t.Run("Client", func(t *testing.T) {
		t.Parallel()
		noLeaks(t)
		server := redistest.Start(t)
		p := redistest.StartWay(t, server.Addr(), nil)
		rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
		t.Cleanup(func() { rdb.Close() })
		atMostOneCharge(t, rdb, p)
	})
	t.Run("ClusterClient", func(t *testing.T) {
		t.Parallel()
		noLeaks(t)
		cluster := redistest.StartCluster(t, 3, 0)
		var proxies []*redistest.Way
		for _, s := range cluster.Servers {
			proxies = append(proxies, redistest.StartWay(t, s.Addr(), nil))
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: redistest.Dial(proxies...)})
		t.Cleanup(func() { rdb.Close() })
		atMostOneCharge(t, rdb, proxies...)
	})
	t.Run("Ring", func(t *testing.T) {
		t.Parallel()
		noLeaks(t)
		var proxies []*redistest.Way
		addrs := map[string]string{}
		for _, name := range []string{"a", "b"} {
			server := redistest.Start(t)
			proxies = append(proxies, redistest.StartWay(t, server.Addr(), nil))
			addrs[name] = server.Addr()
		}
		rdb := redis.NewRing(&redis.RingOptions{
			Addrs: addrs, HeartbeatFrequency: time.Hour, Dialer: redistest.Dial(proxies...),
		})
		t.Cleanup(func() { rdb.Close() })
		atMostOneCharge(t, rdb, proxies...)
	})
}

func atMostOneCharge(t *testing.T, rdb redis.UniversalClient, proxies ...*redistest.Way) {
	store := redisstore.New(rdb)
	count := func() (delivered, lost int) {
		for _, p := range proxies {
			delivered += int(p.Keys.Load()) // a script may decide several requests
			lost += int(p.Lost.Load())
		}
		return delivered, lost
	}
	patiently, hastily := closedFor(t, store, patient), closedFor(t, store, 50*time.Millisecond)

	// A key for each worker, on all masters of a cluster; each server knows the script.
	const workers = 20
	key := func(i int) string { return fmt.Sprint("client ", i) }
	for i := range workers {
		redistest.WaitFor(t, "a first decision", func() error { return patiently.AllowN(ctx, key(i), 0).Err })
		redistest.WaitFor(t, "a second decision", func() error { return patiently.AllowN(ctx, key(i), 0).Err })
	}
	if _, single := rdb.(*redis.Client); single {
		if err := redisstore.Join(store); err != nil {
			t.Fatal(err)
		}
	}
	redisstore.HoldBreakersClosed(store)
	before, _ := count()

	decisions := 0
	for _, mode := range []struct {
		lose   int32
		by     *core.Limiter
		enough int
	}{
		{redistest.CutsInstead, patiently, 990},
		{redistest.StaysSilent, hastily, 10}, // each holds a connection for as long as the client's own timeout
	} {
		_, earlier := count()
		for _, p := range proxies {
			p.Mode.Store(mode.lose)
		}
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range workers {
			group.Go(func() {
				for {
					if _, lost := count(); lost-earlier >= mode.enough {
						return
					}
					d := mode.by.Allow(ctx, key(i))
					mu.Lock()
					decisions++
					if d.Allowed || !errors.Is(d.Err, core.ErrStore) {
						t.Errorf("a decision whose reply was lost: %+v", d)
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		for _, p := range proxies {
			p.Mode.Store(redistest.Passes)
		}
	}
	redistest.WaitFor(t, "calls that nobody waits for any more to end", func() error {
		if n := redisstore.Calls(store); n > 0 {
			return fmt.Errorf("%d are under way", n)
		}
		return nil
	})
	delivered, lost := count()
	delivered -= before
	if delivered > decisions || lost < 1000 {
		t.Errorf("%d requests delivered for %d decisions, %d replies lost", delivered, decisions, lost)
	}
	charged := 0
	for i := range workers {
		n, err := rdb.LLen(ctx, redisstore.Keys(store, patiently, key(i))[0]).Result()
		if err != nil {
			t.Fatal(err)
		}
		charged += int(n)
	}
	if charged != delivered {
		t.Errorf("%d charges, %d requests delivered", charged, delivered)
	}
	t.Logf("%d decisions, %d requests delivered, %d replies lost, %d charges", decisions, delivered, lost, charged)
	atMostOneReturn(t, rdb, store, proxies...)
}

// atMostOneReturn: a Return whose reply is lost is not sent again, by the store or by the
// client, and cannot be asked for again.
func atMostOneReturn(t *testing.T, rdb redis.UniversalClient, store *redisstore.Store, proxies ...*redistest.Way) {
	const reserved = 100
	l := limiter(t, core.Config{
		Name: "returns", Store: store, Limits: []core.Limit{core.PerHour(1_000_000)}, OnStoreError: core.FailClosed,
		Timeout: patient,
	})
	for i := range 10 { // each server knows the script
		r := l.Reserve(ctx, core.Request{Key: fmt.Sprint("client ", i), Cost: 1})
		if n, err := r.Return(ctx, 1); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	var all []*core.Reservation
	for i := range reserved {
		r := l.Reserve(ctx, core.Request{Key: fmt.Sprint("client ", i%10), Cost: 1})
		if !r.Decision.Allowed {
			t.Fatalf("%+v", r.Decision)
		}
		all = append(all, r)
	}
	count := func() (n int64) {
		for i := range 10 {
			n += rdb.LLen(ctx, redisstore.Keys(store, l, fmt.Sprint("client ", i))[0]).Val()
		}
		return n
	}
	for _, p := range proxies {
		p.Mode.Store(redistest.CutsInstead)
	}
	for _, r := range all {
		if n, err := r.Return(ctx, 1); err == nil || n != 0 {
			t.Errorf("a Return whose reply was lost: %d, %v", n, err)
		}
	}
	for _, p := range proxies {
		p.Mode.Store(redistest.Passes)
	}
	left := count()
	if left < 0 || left == reserved {
		t.Errorf("%d of %d units are counted after all were given back", left, reserved)
	}
	for _, r := range all {
		if n, err := r.Return(ctx, 1); err != nil || n != 0 {
			t.Errorf("given back again: %d, %v", n, err)
		}
	}
	if again := count(); again != left {
		t.Errorf("%d units are counted, and %d after all were given back again", left, again)
	}
}

//go:build !short

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// load calls do in several goroutines, with numbers that go up, until stopped.
func load(workers int, do func(i int)) (stop func()) {
	var stopped atomic.Bool
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for !stopped.Load() {
				do(int(next.Add(1)))
			}
		})
	}
	return sync.OnceFunc(func() {
		stopped.Store(true)
		group.Wait()
	})
}

// TestSlotMigration moves slots under load, with rules of one limit and of two,
// whose keys are on both sides for a while: no decision errs, none is counted
// twice or lost.
func TestSlotMigration(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	cluster := redistest.StartCluster(t, 3, 0)
	rdb := cluster.Client(t)
	store := redisstore.New(rdb)
	// The longest window: where a counter's begins, what is counted becomes that of the window before.
	counter := core.Per(1_000_000, core.MaxWindow).Using(core.SlidingCounter).Named("counter")
	config := core.Config{
		Name: "one", Store: store, Limits: []core.Limit{core.PerHour(1_000_000)},
		OnStoreError: core.FailClosed, Timeout: patient,
	}
	one := limiter(t, config)
	config.Name, config.Limits = "two", []core.Limit{core.PerHour(1_000_000), counter}
	two := limiter(t, config)
	const clients = 12
	var admitted [2][clients]atomic.Int64
	stop := load(8, func(i int) {
		l, c := one, i%clients
		if i/clients%2 == 1 {
			l = two
		}
		d := l.Allow(ctx, fmt.Sprint("client ", c))
		if d.Err != nil || !d.Allowed {
			t.Errorf("%s: %+v", l.Name(), d)
		}
		admitted[i/clients%2][c].Add(1)
	})
	t.Cleanup(stop)
	moved := 0
	for i, l := range []*core.Limiter{one, two, one, two, two} {
		key := redisstore.Keys(store, l, fmt.Sprint("client ", i))[0]
		from := cluster.MasterOf(key)
		for _, to := range cluster.Servers[:3] {
			if to == from {
				continue
			}
			before := admitted[0][i].Load() + admitted[1][i].Load()
			m := cluster.BeginMigration(t, cluster.Slot(key), from, to)
			// The log first: the two keys of a rule are on both sides.
			m.MoveKeys(t, key)
			if l == one {
				redistest.WaitFor(t, "decisions by way of ASK", func() error {
					if admitted[0][i].Load()+admitted[1][i].Load() < before+20 {
						return errors.New("too few")
					}
					return nil
				})
			}
			m.Finish(t)
			from = to
			moved++
		}
	}
	stop()
	total := int64(0)
	for j, l := range []*core.Limiter{one, two} {
		for c := range clients {
			keys := redisstore.Keys(store, l, fmt.Sprint("client ", c))
			n := admitted[j][c].Load()
			total += n
			if got := rdb.LLen(ctx, keys[0]).Val(); got != n {
				t.Errorf("%s, client %d: %d in the log, %d admitted", l.Name(), c, got, n)
			}
			if j == 1 {
				count := "\x00\x00\x00\x00\x00\x00" + string([]byte{0, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)})
				if got := rdb.Get(ctx, keys[1]).Val(); !strings.HasPrefix(got, count) {
					t.Errorf("client %d: the counter is %q, %d admitted", c, got, n)
				}
			}
		}
	}
	t.Logf("%d decisions, %d slots moved", total, moved)
}

// TestMapAfterFailure: a master that does not answer may have been replaced, so the map of a cluster's slots is loaded
// again after a request that failed.
func TestMapAfterFailure(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var loaded atomic.Int64
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			loaded.Add(1)
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: server.Addr()}}}}, nil
		},
	})
	t.Cleanup(func() { rdb.Close() })
	store := redisstore.New(rdb)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(10)}, Timeout: patient})
	if d := l.Allow(ctx, "k"); d.Err != nil {
		t.Fatalf("%+v", d)
	}
	server.Kill()
	before := loaded.Load()
	if d := l.Allow(ctx, "k"); d.Err == nil {
		t.Fatalf("%+v, want an error", d)
	}
	redistest.WaitFor(t, "the map to be loaded again", func() error {
		if n := loaded.Load(); n == before {
			return fmt.Errorf("it was loaded %d times", n)
		}
		return nil
	})
}

// TestSlotsWithoutOwner: Check tells of slots that lose their owner. Their clients get the policy, and no other client
// of the node that owned them does.
func TestSlotsWithoutOwner(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	cluster := redistest.StartCluster(t, 1, 0)
	node := cluster.Servers[0]
	rdb := cluster.Client(t)
	store := redisstore.New(rdb)
	l := closedFor(t, store, patient)
	if d := l.Allow(ctx, "k"); d.Err != nil { // from here on the client knows an owner of each slot
		t.Fatalf("%+v", d)
	}
	do(t, admin(t, node.Addr()), "CONFIG SET cluster-require-full-coverage no", "CLUSTER DELSLOTSRANGE 0 3999")
	served := map[bool][]string{}
	for i := range 100 {
		client := fmt.Sprint("client ", i)
		owned := cluster.MasterOf(redisstore.Keys(store, l, client)[0]) == node
		served[owned] = append(served[owned], client)
	}
	for i, group := 0, new(sync.WaitGroup); i < 100; i++ {
		for _, owned := range []bool{false, false, false, true} { // more failures in a row than open a breaker
			client := served[owned][i%len(served[owned])]
			group.Go(func() {
				if d := l.Allow(ctx, client); d.Allowed != owned || !owned && !mentions(d.Err, "CLUSTERDOWN") {
					t.Errorf("%s, whose slot is served: %v, got %v", client, owned, d.Err)
				}
			})
		}
		if i%5 == 4 {
			group.Wait()
		}
	}
	if err := store.Check(ctx); !mentions(err, "4000 of 16384 slots", "CLUSTERDOWN") {
		t.Errorf("got %v", err)
	}
	do(t, admin(t, node.Addr()), "CLUSTER DELSLOTSRANGE 4000 16383")
	if err := redisstore.New(cluster.Client(t)).Check(ctx); !mentions(err, "16384 of 16384 slots") {
		t.Errorf("without slots: %v", err)
	}
}

// clientsOf returns n clients of l whose counts are on each of the shards, by
// the shard's address.
func clientsOf(t testing.TB, ring *redis.Ring, store *redisstore.Store, l *core.Limiter, n int) map[string][]string {
	t.Helper()
	byAddr := map[string][]string{}
	for i, full := 0, 0; full < ring.Len(); i++ {
		client := fmt.Sprint("client ", i)
		shard, err := ring.GetShardClientForKey(redisstore.Keys(store, l, client)[0])
		if err != nil {
			t.Fatal(err)
		}
		addr := shard.Options().Addr
		if len(byAddr[addr]) == n {
			continue
		}
		if byAddr[addr] = append(byAddr[addr], client); len(byAddr[addr]) == n {
			full++
		}
	}
	return byAddr
}

// closedFor returns a limiter on store that refuses whatever is not counted.
func closedFor(t testing.TB, store *redisstore.Store, timeout time.Duration) *core.Limiter {
	t.Helper()
	return limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerHour(1_000_000)}, OnStoreError: core.FailClosed, Timeout: timeout,
	})
}

// waitOpen waits until l does not wait for the server that holds client.
func waitOpen(t testing.TB, l *core.Limiter, client string) {
	t.Helper()
	redistest.WaitFor(t, "the breaker to open", func() error {
		if err := l.Allow(ctx, client).Err; !errors.Is(err, core.ErrUnavailable) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

// TestSilentShard: a shard that is silent gets the policy for its own clients, and the clients of the other shards do
// not notice. Stats tells of each shard. What is sent in pipelines is counted by script.
func TestSilentShard(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	addrs := map[string]string{}
	var servers []*redistest.Server
	for i := range 3 {
		servers = append(servers, redistest.Start(t))
		addrs[strconv.Itoa(i)] = servers[i].Addr()
	}
	// go-redis leaves the shard where it is.
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: time.Hour})
	t.Cleanup(func() { ring.Close() })
	store := redisstore.New(ring)
	patiently := closedFor(t, store, patient)
	hastily := closedFor(t, store, short)
	clients := clientsOf(t, ring, store, patiently, 10)
	for _, some := range clients {
		for _, client := range some {
			redistest.WaitFor(t, "a first decision", func() error { return patiently.Allow(ctx, client).Err })
		}
	}
	checkSent(t, store, servers...)
	silent, paused := servers[1], time.Now()
	silent.Pause()
	t.Cleanup(silent.Resume)
	waitOpen(t, hastily, clients[silent.Addr()][0])
	for range 20 {
		for addr, some := range clients {
			for _, client := range some {
				switch d := patiently.Allow(ctx, client); {
				case addr != silent.Addr() && (d.Err != nil || !d.Allowed):
					t.Errorf("a client of another shard: %+v", d)
				case addr == silent.Addr() && !errors.Is(d.Err, core.ErrUnavailable):
					t.Errorf("a client of the silent shard: %+v", d)
				}
			}
		}
	}
	stats := store.Stats()
	if len(stats.Breakers) != 4 || stats.Breakers[0].Server != "" {
		t.Errorf("%+v, want a breaker for each shard, after the one for no shard", stats.Breakers)
	}
	for _, b := range stats.Breakers {
		if b.Server == silent.Addr() {
			if b.State == redisstore.StateClosed || b.TripCount != 1 || b.FailingSince.Before(paused) {
				t.Errorf("%+v, want one that is not closed, since %v", b, paused)
			}
		} else if b.State != redisstore.StateClosed || b.TripCount != 0 || !b.FailingSince.IsZero() {
			t.Errorf("%+v, want one that has never opened", b)
		}
	}
	silent.Resume()
	for _, client := range clients[silent.Addr()] {
		redistest.WaitFor(t, "decisions after the silence", func() error { return patiently.Allow(ctx, client).Err })
	}
}

// TestHastyCallersSilent: callers with deadlines of their own, shorter than the limiter's timeout, get the policy at
// once when a cluster whose map is not known has been silent for long.
func TestHastyCallersSilent(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	silent := redistest.Serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{silent}})
	t.Cleanup(func() { rdb.Close() })
	l := limiter(t, core.Config{Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(10)}})
	redistest.WaitFor(t, "decisions at once", func() error {
		own, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		d := l.Allow(own, "k")
		if errors.Is(d.Err, core.ErrUnavailable) && d.Allowed {
			return nil
		}
		return fmt.Errorf("%+v", d)
	})
}

// TestFailover: while the master of some clients is replaced, the policy decides about them, and then the new one.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (rdb redis.UniversalClient, begin, wait func()){
		"Cluster, a silent master": func(t *testing.T) (redis.UniversalClient, func(), func()) {
			cluster := redistest.StartCluster(t, 3, 1)
			for _, server := range cluster.Servers {
				do(t, admin(t, server.Addr()), "CONFIG SET cluster-require-full-coverage no")
			}
			return cluster.Client(t), cluster.Servers[0].Pause, func() { cluster.WaitOK(t) }
		},
		"Sentinel, a master that is killed": func(t *testing.T) (redis.UniversalClient, func(), func()) {
			sentinel := redistest.StartSentinel(t, 2, 3)
			return sentinel.Client(t), sentinel.WaitOK(t).Kill, func() { sentinel.WaitOK(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			rdb, begin, wait := open(t)
			store := redisstore.New(rdb)
			patiently, hastily := closedFor(t, store, patient), closedFor(t, store, core.DefaultTimeout)
			counted := func() (err error) {
				for i := range 12 {
					err = errors.Join(err, patiently.Allow(ctx, fmt.Sprint("client ", i)).Err)
				}
				return err
			}
			redistest.WaitFor(t, "first decisions", counted)
			var byPolicy atomic.Int64
			stop := load(8, func(i int) {
				d := hastily.Allow(ctx, fmt.Sprint("client ", i%50))
				if d.Err != nil {
					byPolicy.Add(1)
				}
				if d.Allowed != (d.Err == nil) || d.Err != nil && !errors.Is(d.Err, core.ErrStore) {
					t.Errorf("%+v", d)
				}
				time.Sleep(10 * time.Millisecond) // a breaker that is open answers at once
			})
			t.Cleanup(stop)
			begin()
			wait()
			redistest.WaitFor(t, "decisions to be counted again", counted)
			if stop(); byPolicy.Load() == 0 {
				t.Error("nobody noticed that a master was away")
			}
		})
	}
}

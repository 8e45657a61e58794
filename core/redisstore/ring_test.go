package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// startRing starts servers and returns a client of all of them. heartbeat is how
// often the client looks for shards that are down; 0 is go-redis's default.
func startRing(t testing.TB, shards int, heartbeat time.Duration) ([]*redistest.Server, *redis.Ring) {
	t.Helper()
	addrs := map[string]string{}
	var servers []*redistest.Server
	for i := range shards {
		servers = append(servers, redistest.Start(t))
		addrs[strconv.Itoa(i)] = servers[i].Addr()
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: heartbeat})
	t.Cleanup(func() { ring.Close() })
	return servers, ring
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

// TestSilentShard: a shard that is silent gets the policy for its own clients,
// and the clients of the other shards do not notice.
func TestSilentShard(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	servers, ring := startRing(t, 3, time.Hour) // go-redis leaves the shard where it is
	store := redisstore.New(ring)
	patiently := closedFor(t, store, patient)
	hastily := closedFor(t, store, short)
	clients := clientsOf(t, ring, store, patiently, 10)
	for _, some := range clients {
		for _, client := range some {
			redistest.WaitFor(t, "a first decision", func() error { return patiently.Allow(ctx, client).Err })
		}
	}
	silent := servers[1]
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
	for _, s := range servers {
		if state := redisstore.BreakerState(store, s.Addr()); (state == "closed") != (s != silent) {
			t.Errorf("the breaker of %s is %s; %s is silent", s.Addr(), state, silent.Addr())
		}
	}
	silent.Resume()
	for _, client := range clients[silent.Addr()] {
		redistest.WaitFor(t, "decisions after the silence", func() error { return patiently.Allow(ctx, client).Err })
	}
}

// TestShardTakenOut: when go-redis takes a dead shard out of the ring, its
// clients are counted on the others, and when the shard is back, on that again.
func TestShardTakenOut(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	servers, ring := startRing(t, 2, 20*time.Millisecond)
	store := redisstore.New(ring)
	l := closedFor(t, store, patient)
	clients := clientsOf(t, ring, store, l, 1)
	dead, alive := servers[0], servers[1]
	onDead, onAlive := admin(t, dead.Addr()), admin(t, alive.Addr())
	client := clients[dead.Addr()][0]
	key := redisstore.Keys(store, l, client)[0]
	redistest.WaitFor(t, "a first decision", func() error { return l.Allow(ctx, client).Err })
	dead.Kill()
	redistest.WaitFor(t, "a decision on the other shard", func() error { return l.Allow(ctx, client).Err })
	if n := onAlive.Exists(ctx, key).Val(); n != 1 {
		t.Error("the client is not counted on the other shard")
	}
	dead.Restart()
	redistest.WaitFor(t, "a decision on the shard that is back", func() error {
		if err := l.Allow(ctx, client).Err; err != nil {
			return err
		}
		if n := onDead.Exists(ctx, key).Val(); n != 1 {
			return errors.New("the client is counted elsewhere")
		}
		return nil
	})
	if state := redisstore.BreakerState(store, dead.Addr()); state != "closed" {
		t.Errorf("the breaker of the shard that is back is %s", state)
	}
}

// TestRingTogether: requests that wait for the same shard are sent together.
func TestRingTogether(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	servers, ring := startRing(t, 2, time.Hour)
	store := redisstore.New(ring)
	l := closedFor(t, store, patient)
	clients := clientsOf(t, ring, store, l, 50)
	for _, some := range clients { // then each shard knows the script
		redistest.WaitFor(t, "a first decision", func() error { return l.AllowN(ctx, some[0], 0).Err })
	}
	before := [2]int{calls(t, servers[0].Client(t), "evalsha"), calls(t, servers[1].Client(t), "evalsha")}
	stop := load(20, func(i int) {
		client := clients[servers[i%2].Addr()][i%50]
		if d := l.Allow(ctx, client); d.Err != nil || !d.Allowed {
			t.Errorf("%+v", d)
		}
	})
	t.Cleanup(stop)
	redistest.WaitFor(t, "decisions on both shards", func() error {
		for i, s := range servers {
			if n := calls(t, s.Client(t), "evalsha") - before[i]; n < 200 {
				return fmt.Errorf("%d on shard %d", n, i)
			}
		}
		return nil
	})
	stop()
	if s := store.Stats(); s.LargestBatch < 2 {
		t.Errorf("no two requests went together: %+v", s)
	}
}

// TestHastyCallersSilent: callers with deadlines of their own, shorter than the
// limiter's timeout, get the policy at once when a server has been silent for
// long, on clients whose decisions go alone too.
func TestHastyCallersSilent(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, silent string) redis.UniversalClient{
		"Ring": func(t *testing.T, silent string) redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": silent}, HeartbeatFrequency: time.Hour})
		},
		"ClusterClient": func(t *testing.T, silent string) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{silent}})
		},
		"Client": func(t *testing.T, silent string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: silent})
		},
		"another client": func(t *testing.T, silent string) redis.UniversalClient {
			return another{redis.NewClient(&redis.Options{Addr: silent})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			rdb := open(t, listen(t))
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
		})
	}
}

// listen returns the address of a server that never says anything.
func listen(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

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

// TestHastyCallersSilent: callers with deadlines of their own, shorter than the limiter's timeout, get the policy at
// once when a cluster whose map is not known has been silent for long.
func TestHastyCallersSilent(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{listen(t)}})
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

// listen returns the address of a server that never says anything.
func listen(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

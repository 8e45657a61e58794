package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/sashlimit/sash/internal/redistest"
)

// redisPeers returns the limiters that docs/comparison.md has, by the names of its rows.
func redisPeers() (peers []remote) {
	for _, r := range remotes() {
		if r.name != "sash coarse log" && r.name != "sash bucket" {
			peers = append(peers, r)
		}
	}
	return peers
}

// open opens a limiter with a limit of requests an hour.
func open(t *testing.T, r remote, requests int, rdb redis.UniversalClient) func(client string) error {
	t.Helper()
	decide, err := r.open(rdb, perHour(requests))
	if err != nil {
		t.Fatal(err)
	}
	return decide
}

// info returns a number of a section of Redis's INFO, or 0 if it is not there, as the calls of a command that was never
// called are not.
func info(t *testing.T, rdb redis.UniversalClient, section, name string) int {
	t.Helper()
	text, err := rdb.Info(context.Background(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.Trim(regexp.MustCompile(`^(calls=)?\d+`).FindString(field(text, name)), "cals="))
	return n
}

// TestRoundTrips: how often a caller without company goes to Redis for a decision, by Redis's own count of what it
// reads from its connections.
func TestRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, r := range redisPeers() {
		decide := open(t, r, 1000, server.Client(t))
		client := 0
		trips := func(next int) (each int) {
			const decisions = 20
			// A library may also ask something in the background, once. So decisions are repeated until all took as
			// many round trips.
			redistest.WaitFor(t, "even numbers of round trips", func() error {
				before := info(t, admin, "stats", "total_reads_processed")
				for range decisions {
					client += next
					if err := decide(fmt.Sprint(client)); err != nil {
						t.Fatal(err)
					}
				}
				all := info(t, admin, "stats", "total_reads_processed") - before - 1 // the INFO itself
				if each = all / decisions; all%decisions != 0 {
					return fmt.Errorf("%s: %d round trips for %d decisions", r.name, all, decisions)
				}
				return nil
			})
			return each
		}
		first, later := trips(1), trips(0)
		got := strconv.Itoa(later)
		if first != later {
			got += fmt.Sprintf("; %d for a client's first", first)
		}
		wantCell(t, r.name, tripsColumn, got)
	}
}

// TestProcessesShareALimit: two processes (two clients, two limiters) together admit what the limit says, however their
// requests meet.
func TestProcessesShareALimit(t *testing.T) {
	const limit, each = 10, 40
	for _, r := range redisPeers() {
		server := redistest.Start(t)
		var admitted, failed atomic.Int64
		var all sync.WaitGroup
		for range 2 {
			decide := open(t, r, limit, server.Client(t))
			for range each {
				all.Go(func() {
					switch err := decide("a"); {
					case err == nil:
						admitted.Add(1)
					case !errors.Is(err, errRefused):
						failed.Add(1)
					}
				})
			}
		}
		all.Wait()
		if admitted.Load() != limit || failed.Load() > 0 {
			t.Errorf("%s: %d of %d requests admitted and %d failed, want %d and 0",
				r.name, admitted.Load(), 2*each, failed.Load(), limit)
		}
	}
}

// warm leaves so many connections in the pool of a client, as a server under load has them.
func warm(t *testing.T, rdb *redis.Client, connections int) {
	t.Helper()
	for range connections {
		conn := rdb.Conn()
		defer conn.Close()
		if err := conn.Ping(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSilentRedis: Redis takes connections and commands, and does not answer until it is resumed. What it then does
// shows how often each library sent one decision, and so how many times ReadTimeout a request waited. ReadTimeout is
// shorter here than by default.
func TestSilentRedis(t *testing.T) {
	for _, r := range redisPeers() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 200 * time.Millisecond})
			defer rdb.Close()
			decide := open(t, r, 1000, rdb)
			if err := decide("a"); err != nil { // the script is loaded
				t.Fatal(err)
			}
			warm(t, rdb, 8)
			admin := server.Client(t)
			if err := admin.ConfigResetStat(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
			server.Pause()
			if err := decide("a"); err == nil || errors.Is(err, errRefused) {
				t.Errorf("while Redis is silent: %v, want an error", err)
			}
			server.Resume()
			command := "cmdstat_evalsha"
			if r.name == "throttled" {
				command = "cmdstat_get"
			}
			// go-redis has closed the connections on which it waited in vain. Redis notices that after it has done what
			// came through them.
			redistest.WaitFor(t, "Redis to do what it was sent", func() error {
				open := int(rdb.PoolStats().TotalConns + admin.PoolStats().TotalConns)
				if has := info(t, admin, "clients", "connected_clients"); has > open {
					return fmt.Errorf("it has %d connections, of which %d are open", has, open)
				}
				return nil
			})
			wantCell(t, r.name, sentColumn, strconv.Itoa(info(t, admin, "commandstats", command)))
		})
	}
}

// TestKeysInRedis: what the keys of a client take in Redis after 100 requests is about what docs/comparison.md says:
// within a fifth, since servers of other versions differ.
func TestKeysInRedis(t *testing.T) {
	for _, r := range redisPeers() {
		measured, err := r.bytes(redistest.Start(t).Client(t))
		if err != nil {
			t.Fatal(err)
		}
		about(t, r.name, keysColumn, float64(measured), 0.2)
	}
}

// about checks that docs/comparison.md says a number that is as close as a share of it to what was measured.
func about(t *testing.T, row, column string, measured, share float64) {
	t.Helper()
	said, err := strconv.ParseFloat(strings.ReplaceAll(cell(t, row, column), ",", ""), 64)
	if err != nil || math.Abs(said/measured-1) > share {
		t.Errorf("%s, %s: %.1f, and docs/comparison.md says %v (%v)", row, column, measured, said, err)
	}
}

// TestWorstWindowInRealTime does what TestWorstWindow does for limiters whose clock cannot be set, in windows of 200
// ms. A machine that is busy may see less than the worst, so the attacks are repeated until it has been seen.
func TestWorstWindowInRealTime(t *testing.T) {
	goLimiter := remote{"go-limiter", func(_ redis.UniversalClient, l load) (func(string) error, error) {
		memory, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.requests), Interval: l.window})
		return func(client string) error {
			_, _, _, ok, err := memory.Take(context.Background(), client)
			return orRefused(err, ok)
		}, err
	}, nil}
	for _, r := range append(redisPeers(), goLimiter) {
		if r.name != redisRate && r.name != goLimiter.name {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			want, err := strconv.Atoi(cell(t, r.name, worstColumn))
			if err != nil {
				t.Fatal(err)
			}
			worst, rdb := 0, redistest.Start(t).Client(t)
			for i, deadline := 0, time.Now().Add(20*time.Second); worst < want && time.Now().Before(deadline); i++ {
				n, err := r.fullest(rdb, i)
				if err != nil {
					t.Fatal(err)
				}
				worst = max(worst, n)
			}
			if worst != want {
				t.Errorf("%d in the worst window, and docs/comparison.md says %d", worst, want)
			}
		})
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/sashlimit/sash/internal/redistest"
)

// redisPeers are the limiters of remotes that docs/comparison.md has, by the row.
var redisPeers = []string{"sash log", "sash counter", "ulule", "redis_rate", "throttled"}

// openPeer opens the limiter of a name, with a limit of requests an hour.
func openPeer(t *testing.T, name string, requests int, rdb redis.UniversalClient) func(i int) error {
	t.Helper()
	for _, r := range remotes(requests) {
		if r.name == name {
			decide, err := r.open(rdb, Env{})
			if err != nil {
				t.Fatal(err)
			}
			return decide
		}
	}
	t.Fatalf("no limiter is named %q", name)
	return nil
}

// info returns a number of a section of Redis's INFO, or 0 if it is not there, as the calls
// of a command that was never called are not.
func info(t *testing.T, rdb redis.UniversalClient, section, field string) int {
	t.Helper()
	text, err := rdb.Info(context.Background(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`(?m)^` + field + `:(?:calls=)?(\d+)`).FindStringSubmatch(text)
	if number == nil {
		return 0
	}
	n, err := strconv.Atoi(number[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRoundTrips: how often a caller without company goes to Redis for a decision, by
// Redis's own count of what it reads from its connections.
func TestRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, name := range redisPeers {
		decide := openPeer(t, name, 1000, server.Client(t))
		client := 0
		trips := func(next int) (each int) {
			const decisions = 20
			// A library may also ask something in the background, once. So decisions are
			// repeated until all took as many round trips.
			redistest.WaitFor(t, "even numbers of round trips", func() error {
				before := info(t, admin, "stats", "total_reads_processed")
				for range decisions {
					client += next
					if err := decide(client); err != nil {
						t.Fatal(err)
					}
				}
				all := info(t, admin, "stats", "total_reads_processed") - before - 1 // the INFO itself
				if each = all / decisions; all%decisions != 0 {
					return fmt.Errorf("%s: %d round trips for %d decisions", name, all, decisions)
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
		wantCell(t, name, tripsColumn, got)
	}
}

// TestProcessesShareALimit: two processes (two clients, two limiters) together admit what
// the limit says, however their requests meet.
func TestProcessesShareALimit(t *testing.T) {
	const limit, each = 10, 40
	for _, name := range redisPeers {
		server := redistest.Start(t)
		var admitted, failed atomic.Int64
		var all sync.WaitGroup
		for range 2 {
			decide := openPeer(t, name, limit, server.Client(t))
			for range each {
				all.Go(func() {
					switch err := decide(1); {
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
				name, admitted.Load(), 2*each, failed.Load(), limit)
		}
	}
}

// TestThrottledGivesUp: a decision of throttled that others overtake ten times in a row is
// an error. Its middleware answers 500.
func TestThrottledGivesUp(t *testing.T) {
	server := redistest.Start(t)
	rival, rdb := server.Client(t), server.Client(t)
	open := func(rdb redis.UniversalClient) *throttled.GCRARateLimiterCtx {
		store, err := throttledredis.NewCtx(rdb, "")
		if err != nil {
			t.Fatal(err)
		}
		limiter, err := throttled.NewGCRARateLimiterCtx(store, load{requests: 1000}.gcra())
		if err != nil {
			t.Fatal(err)
		}
		return limiter
	}
	other, limiter := open(rival), open(rdb)
	decideOther := func() {
		if _, _, err := other.RateLimitCtx(context.Background(), "a", 1); err != nil {
			t.Error(err)
		}
	}
	decideOther()
	rdb.AddHook(before{"eval", decideOther})
	_, _, err := limiter.RateLimitCtx(context.Background(), "a", 1)
	if err == nil || !strings.Contains(err.Error(), "after 10 attempts") {
		t.Errorf("overtaken each time: %v, want an error after 10 attempts", err)
	}
}

// before is a hook of go-redis that does something before each command of a name.
type before struct {
	command string
	do      func()
}

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == b.command {
			b.do()
		}
		return next(ctx, cmd)
	}
}

// warm leaves so many connections in the pool of a client, as a server under load has them.
func warm(t *testing.T, rdb *redis.Client, connections int) {
	t.Helper()
	ctx := context.Background()
	var held []*redis.Conn
	for range connections {
		conn := rdb.Conn()
		if err := conn.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for _, conn := range held {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSilentRedis: Redis takes connections and commands, and does not answer until it is
// resumed. What it then does shows how often each library sent one decision, and so how
// many times ReadTimeout a request waited. ReadTimeout is shorter here than by default.
func TestSilentRedis(t *testing.T) {
	for _, name := range redisPeers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 200 * time.Millisecond})
			defer rdb.Close()
			decide := openPeer(t, name, 1000, rdb)
			if err := decide(1); err != nil { // the script is loaded
				t.Fatal(err)
			}
			warm(t, rdb, 8)
			admin := server.Client(t)
			if err := admin.ConfigResetStat(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
			server.Pause()
			if err := decide(1); err == nil || errors.Is(err, errRefused) {
				t.Errorf("while Redis is silent: %v, want an error", err)
			}
			server.Resume()
			command := "cmdstat_evalsha"
			if name == "throttled" {
				command = "cmdstat_get"
			}
			// go-redis has closed the connections on which it waited in vain. Redis notices
			// that after it has done what came through them.
			redistest.WaitFor(t, "Redis to do what it was sent", func() error {
				open := int(rdb.PoolStats().TotalConns + admin.PoolStats().TotalConns)
				if has := info(t, admin, "clients", "connected_clients"); has > open {
					return fmt.Errorf("it has %d connections, of which %d are open", has, open)
				}
				return nil
			})
			wantCell(t, name, sentColumn, strconv.Itoa(info(t, admin, "commandstats", command)))
		})
	}
}

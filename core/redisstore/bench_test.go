package redisstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/notice"
	"github.com/sashlimit/sash/internal/redistest"
)

// BenchmarkBytes reports what a client takes in Redis: B/client by used_memory, with all that
// the server needs for it, and key-B/client by MEMORY USAGE of its key.
func BenchmarkBytes(b *testing.B) {
	const perHour, all, most = 1_000_000, 100_000, 1_000_000_000 // all requests together
	coarse := func(n int64, w time.Duration) core.Limit { return core.Per(n, w).Using(core.CoarseLog) }
	for _, bench := range []struct {
		name              string
		limit             core.Limit
		clients, requests int
		cost              int64
		pause             time.Duration // before the next request of each
	}{
		{"counter", core.PerHour(perHour).Using(core.SlidingCounter), all, 1, 1, 0},
		{"log of 1", core.PerHour(perHour), all, 1, 1, 0},
		{"log of 10", core.PerHour(perHour), all / 10, 10, 1, 0},
		{"log of 100", core.PerHour(perHour), all / 100, 100, 1, 0},
		{"log of 1000", core.PerHour(perHour), all / 1000, 1000, 1, 0},
		{"bucket", core.PerHour(perHour).Using(core.Bucket), all, 1, 1, 0},
		{"coarse of 1 slot", coarse(perHour, time.Hour), all, 1, 1, 0},
		{"coarse of 1000 in 61 slots", coarse(1000, 12*time.Second), 1000, 61, 1000 / 61, time.Second / 5},
		{"coarse of 10^9 in 61 slots", coarse(most, 12*time.Second), 1000, 61, most / 61, time.Second / 5},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := redistest.Start(b)
			rdb := server.Client(b)
			// fill makes requests of each client, in 64 goroutines, on connections of its own.
			fill := func(clients, requests int) {
				own := redis.NewClient(&redis.Options{Addr: server.Addr()})
				defer own.Close()
				l := limiter(b, core.Config{Name: "api", Store: redisstore.New(own), Limits: []core.Limit{bench.limit},
					Timeout: patient, Quiet: []string{notice.LargeLog}})
				for start, i := time.Now(), 0; i < requests; i++ {
					time.Sleep(time.Until(start.Add(time.Duration(i) * bench.pause)))
					var group sync.WaitGroup
					for worker := range 64 {
						group.Go(func() {
							for i := worker; i < clients; i += 64 {
								if d := l.AllowN(ctx, fmt.Sprintf("user:%08d", i), bench.cost); d.Err != nil {
									b.Error(d.Err)
								}
							}
						})
					}
					group.Wait()
				}
			}
			for b.Loop() {
				fill(1, 1)                      // the server loads the script
				rdb.Do(ctx, "FLUSHALL", "SYNC") // Valkey 8 frees memory later without SYNC
				before := usedMemory(b, rdb)
				fill(bench.clients, bench.requests)
				b.ReportMetric(float64(usedMemory(b, rdb)-before)/float64(bench.clients), "B/client")
				b.ReportMetric(float64(rdb.MemoryUsage(ctx, rdb.RandomKey(ctx).Val(), 0).Val()), "key-B/client")
			}
		})
	}
}

// usedMemory ends all other connections, because their buffers vary, and returns the bytes
// that the server has allocated.
func usedMemory(b *testing.B, rdb *redis.Client) (bytes int) {
	b.Helper()
	if err := rdb.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(rdb.Info(ctx, "memory").Val()) {
		if n, _ := fmt.Sscanf(line, "used_memory:%d", &bytes); n == 1 {
			return bytes
		}
	}
	b.Fatal("INFO has no used_memory")
	return 0
}

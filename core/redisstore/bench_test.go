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
	const perHour, all = 1_000_000, 100_000 // all requests together
	for _, bench := range []struct {
		name              string
		limit             core.Limit
		clients, requests int
	}{
		{"counter", core.PerHour(perHour).Using(core.SlidingCounter), all, 1},
		{"log of 1", core.PerHour(perHour), all, 1},
		{"log of 10", core.PerHour(perHour), all / 10, 10},
		{"log of 100", core.PerHour(perHour), all / 100, 100},
		{"log of 1000", core.PerHour(perHour), all / 1000, 1000},
		{"bucket", core.PerHour(perHour).Using(core.Bucket), all, 1},
		{"coarse of 1 slot", core.PerHour(perHour).Using(core.CoarseLog), all, 1},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := redistest.Start(b)
			rdb := server.Client(b)
			for b.Loop() {
				fill(b, server, bench.limit, 1, 1) // the server loads the script
				rdb.Do(ctx, "FLUSHALL", "SYNC")    // Valkey 8 frees memory later without SYNC
				before := usedMemory(b, rdb)
				fill(b, server, bench.limit, bench.clients, bench.requests)
				b.ReportMetric(float64(usedMemory(b, rdb)-before)/float64(bench.clients), "B/client")
				key := rdb.RandomKey(ctx).Val()
				b.ReportMetric(float64(rdb.MemoryUsage(ctx, key, 0).Val()), "key-B/client")
			}
		})
	}
}

// BenchmarkBytesCoarse reports the same of clients that use the whole of a CoarseLog, in each of its slots.
func BenchmarkBytesCoarse(b *testing.B) {
	const clients, slots = 1000, 61
	for _, n := range []int64{1000, 1_000_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			server := redistest.Start(b)
			rdb := server.Client(b)
			limit := core.Per(n, 12*time.Second).Using(core.CoarseLog)
			l := core.Must(core.New(core.Config{Name: "api", Store: redisstore.New(rdb), Limits: []core.Limit{limit},
				Timeout: 20 * time.Second}))
			for b.Loop() {
				l.Allow(ctx, "k") // the server loads the script
				rdb.Do(ctx, "FLUSHALL", "SYNC")
				before, start := usedMemory(b, rdb), time.Now()
				for slot := range slots {
					time.Sleep(time.Until(start.Add(time.Duration(slot) * limit.Window / 60)))
					var group sync.WaitGroup
					for worker := range 64 {
						group.Go(func() {
							for i := worker; i < clients; i += 64 {
								l.AllowN(ctx, fmt.Sprintf("user:%08d", i), n/slots)
							}
						})
					}
					group.Wait()
				}
				b.ReportMetric(float64(usedMemory(b, rdb)-before)/clients, "B/client")
				b.ReportMetric(float64(rdb.MemoryUsage(ctx, rdb.RandomKey(ctx).Val(), 0).Val()), "key-B/client")
			}
		})
	}
}

// fill makes requests of each client, in 64 goroutines, on connections of its own.
func fill(b *testing.B, server *redistest.Server, limit core.Limit, clients, requests int) {
	b.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	l := core.Must(core.New(core.Config{
		Name: "api", Store: redisstore.New(rdb), Limits: []core.Limit{limit},
		Timeout: 20 * time.Second, Quiet: []string{notice.LargeLog},
	}))
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := worker; i < clients; i += 64 {
				for range requests {
					if d := l.Allow(ctx, fmt.Sprintf("user:%08d", i)); d.Err != nil {
						b.Error(d.Err)
						return
					}
				}
			}
		})
	}
	group.Wait()
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

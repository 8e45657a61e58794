package redisstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// BenchmarkHotKey decides for one client in four stores, each with a client of
// its own as in four processes, below the limit. scripts/op is by the server's
// account.
func BenchmarkHotKey(b *testing.B) {
	limits := []core.Limit{core.Per(core.MaxLogRequests, 100*time.Millisecond)}
	for _, bench := range []struct {
		name    string
		options []Option
	}{
		{"plain", nil},
		{"leased-100", []Option{WithLease(100, 100*time.Millisecond)}},
		{"leased-1000", []Option{WithLease(1000, 100*time.Millisecond)}},
		{"leased-10000", []Option{WithLease(10_000, 100*time.Millisecond)}},
	} {
		for _, goroutines := range []int{4, 64} {
			b.Run(bench.name+"/goroutines-"+strconv.Itoa(goroutines), func(b *testing.B) {
				server := redistest.Start(b)
				var limiters [4]*core.Limiter
				for i := range limiters {
					limiters[i] = core.Must(core.New(core.Config{
						Store:  New(server.Client(b), bench.options...),
						Limits: limits, OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
					}))
					limiters[i].Allow(ctx, "ip:198.51.100.7")
				}
				rdb := server.Client(b)
				rdb.ConfigResetStat(ctx)
				var next atomic.Int64
				b.SetParallelism(goroutines / 2)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					l := limiters[next.Add(1)%int64(len(limiters))]
					for pb.Next() {
						if d := l.Allow(ctx, "ip:198.51.100.7"); d.Err != nil {
							b.Error(d.Err)
							return
						}
					}
				})
				b.StopTimer()
				b.ReportMetric(float64(scriptsRun(b, rdb))/float64(b.N), "scripts/op")
			})
		}
	}
}

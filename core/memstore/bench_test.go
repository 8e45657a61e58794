package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// BenchmarkAllow is one decision: its parts are named algorithm, answer and
// number of clients.
func BenchmarkAllow(b *testing.B) {
	for _, a := range algorithms {
		for _, answer := range []string{"admitted", "refused"} {
			for _, clients := range []int{1, 100_000} {
				l, keys := benchmark(b, a, answer, clients)
				name := fmt.Sprintf("%v/%s/%d", a, answer, clients)
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						l.Allow(ctx, keys[i%len(keys)])
					}
				})
				b.Run(name+"/parallel", func(b *testing.B) {
					b.ReportAllocs()
					var goroutine atomic.Int64
					b.RunParallel(func(pb *testing.PB) {
						for i := int(goroutine.Add(1)) * 31; pb.Next(); i++ {
							l.Allow(ctx, keys[i%len(keys)])
						}
					})
				})
			}
		}
	}
}

// benchmark returns a limiter on the clock of the machine. Admitted, a log
// holds some hundred requests, or a few where clients are many.
func benchmark(b *testing.B, a core.Algorithm, answer string, clients int) (*core.Limiter, []string) {
	keys := make([]string, clients)
	for i := range keys {
		keys[i] = key("ip:198.51.100.", i)
	}
	limit := core.PerHour(1).Using(a)
	if answer == "admitted" {
		limit = core.Per(core.MaxLogRequests, time.Duration(clients)*core.MinWindow/50+core.MinWindow).Using(a)
	}
	limit.Window = limit.Window.Truncate(time.Microsecond)
	l := limiter(b, memstore.New(), limit)
	for range 4 {
		for _, k := range keys {
			l.Allow(ctx, k)
		}
	}
	// They come in another order than that in which they stand in memory.
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return l, keys
}

// BenchmarkMemory reports what a live client takes, by the store's own account
// and by the heap's: of few in a store of the default size, and of many in a larger one.
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		algorithm         core.Algorithm
		requests, clients int
		size              int64
	}{
		{core.SlidingCounter, 1, 1000, memstore.DefaultMaxBytes}, {core.SlidingCounter, 1, 10_000, memstore.DefaultMaxBytes},
		{core.SlidingCounter, 1, 1_000_000, 1 << 30}, {core.SlidingLog, 2, 1_000_000, 1 << 30},
		{core.SlidingLog, 10, 1_000_000, 1 << 30}, {core.CoarseLog, 1, 1_000_000, 1 << 30},
	} {
		b.Run(fmt.Sprintf("%v/%d/%d", c.algorithm, c.requests, c.clients), func(b *testing.B) {
			for b.Loop() {
				clock := newClock()
				s := memstore.New(memstore.WithMaxBytes(c.size), memstore.WithClock(clock.Now))
				empty, before := s.Stats().Bytes, heap()
				l := limiter(b, s, core.PerDay(100).Using(c.algorithm))
				for range c.requests {
					for i := range c.clients {
						l.Allow(ctx, key("ip:198.51.100.", i))
					}
				}
				b.ReportMetric(float64(s.Stats().Bytes-empty)/float64(c.clients), "B/client")
				b.ReportMetric(float64(heap()-before)/float64(c.clients), "heap-B/client")
				runtime.KeepAlive(s)
			}
		})
	}
}

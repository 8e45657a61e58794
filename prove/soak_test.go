package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

const (
	soakers     = 16
	soakSamples = 60
	soakWindow  = time.Second
)

// gauges are what must not grow.
var gauges = []string{"heap KB", "goroutines", "connections", "keys in Redis", "Redis KB"}

// soak is limiters of all kinds under load.
type soak struct {
	server   *redistest.Server
	admin    *redis.Client
	limiters []*core.Limiter
	asked    atomic.Int64
	leaked   [soakers][]*core.Decision // only if leaks
	leaks    bool
}

func newSoak(t *testing.T, leaks bool) *soak {
	server := redistest.Start(t)
	s := &soak{server: server, admin: server.Client(t), leaks: leaks}
	shared, fallback := redisstore.New(server.Client(t)), memstore.New(memstore.WithMaxBytes(1<<20))
	for i, store := range []core.Store{
		shared, redisstore.New(server.Client(t), redisstore.WithLease(20, time.Second)),
		memstore.New(memstore.WithMaxBytes(4 << 20)),
	} {
		for name, limits := range map[string][]core.Limit{
			"log":     {core.Per(40, soakWindow)},
			"coarse":  {core.Per(40, soakWindow).Using(core.CoarseLog)},
			"counter": {core.Per(40, soakWindow).Using(core.SlidingCounter)},
			"bucket":  {core.Per(40, soakWindow).Using(core.Bucket)},
			"three":   {core.Per(40, soakWindow), core.Per(30, soakWindow/2), core.Per(20, soakWindow/4)},
		} {
			s.limiters = append(s.limiters, core.Must(core.New(core.Config{
				Name: fmt.Sprint(name, i), Store: store, Limits: limits,
				OnStoreError: core.Fallback(fallback, 2),
			})))
		}
	}
	return s
}

// ask asks once, by any verb: of a thousand clients, or of one that nobody has seen before.
func (s *soak) ask(worker int, rng *rand.Rand) {
	ctx, limiter := context.Background(), s.limiters[rng.IntN(len(s.limiters))]
	n := s.asked.Add(1)
	key := fmt.Sprint(rng.IntN(1000))
	if n%50 == 0 {
		key = fmt.Sprint("new", n)
	}
	switch verb := rng.IntN(20); verb {
	case 0:
		limiter.Reset(ctx, key)
	case 1:
		limiter.Usage(ctx, key)
	case 2, 3:
		r := limiter.Reserve(ctx, core.Request{Key: key, Cost: 2, Charge: verb == 3})
		r.Return(ctx, 1)
	case 4:
		limiter.Decide(ctx, core.Request{Key: key, Peek: true})
	default:
		d := limiter.Allow(ctx, key)
		if s.leaks && n%10 == 0 {
			s.leaked[worker] = append(s.leaked[worker], &d)
		}
	}
}

// fault injects a fault, and ends it.
func (s *soak) fault(t *testing.T, rng *rand.Rand) {
	end := redistest.Faults[rng.IntN(len(redistest.Faults))].Begin(t, s.server)
	time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
	end()
}

// sample returns what the gauges show while nobody asks.
func (s *soak) sample() (now []int64) {
	ctx := context.Background()
	runtime.GC()
	runtime.GC() // the first one leaves what has a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	number := func(info, name string) (n int64) {
		_, rest, _ := strings.Cut(info, name+":")
		fmt.Sscan(rest, &n)
		return n
	}
	return []int64{
		int64(m.HeapAlloc) >> 10, int64(runtime.NumGoroutine()),
		number(s.admin.Info(ctx, "clients").Val(), "connected_clients"), s.admin.DBSize(ctx).Val(),
		number(s.admin.Info(ctx, "memory").Val(), "used_memory") >> 10,
	}
}

// run asks at full speed for so long, and returns the samples of each gauge.
func (s *soak) run(t *testing.T, lasts time.Duration, seed uint64) (series [][]int64, faults int) {
	var calm sync.RWMutex // held for writing while a sample is taken
	var stopped atomic.Bool
	var group sync.WaitGroup
	for worker := range soakers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(worker)))
			for !stopped.Load() {
				calm.RLock()
				s.ask(worker, rng)
				calm.RUnlock()
			}
		})
	}
	series = make([][]int64, len(gauges))
	rng := rand.New(rand.NewPCG(seed, soakers))
	interval := lasts / soakSamples
	quiet := min(interval/2, 3*soakWindow) // while nobody asks, so that all that was counted expires
	for range soakSamples {
		for began := time.Now(); time.Since(began) < interval-quiet; faults++ {
			time.Sleep(time.Duration(rng.Int64N(int64(interval / 8))))
			s.fault(t, rng)
		}
		calm.Lock()
		time.Sleep(quiet)
		for i, n := range s.sample() {
			series[i] = append(series[i], n)
		}
		calm.Unlock()
	}
	stopped.Store(true)
	group.Wait()
	return series, faults
}

// grows reports whether the last third of a series is a tenth above the second, which is more than noise.
func grows(series []int64) bool {
	median := func(part []int64) int64 {
		part = slices.Sorted(slices.Values(part))
		return part[len(part)/2]
	}
	third := len(series) / 3
	before := median(series[third : 2*third])
	return median(series[2*third:]) > before+before/10+2
}

// picture draws a series.
func picture(series []int64) string {
	most, b := max(1, slices.Max(series)), []rune{}
	for _, n := range series {
		b = append(b, []rune("▁▂▃▄▅▆▇█")[n*7/most])
	}
	return fmt.Sprintf("%d %s %d", series[0], string(b), series[len(series)-1])
}

// TestSoak: at full speed by all verbs, while servers are killed and fill up, nothing grows. A caller that keeps one
// decision in ten is found out.
func TestSoak(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	s := newSoak(t, false)
	series, faults := s.run(t, *lasts, *seed)
	for i, name := range gauges {
		t.Logf("proved: %s: %s", name, picture(series[i]))
		if grows(series[i]) {
			t.Errorf("%s grows: %v", name, series[i])
		}
	}
	t.Logf("proved: %d requests, %d faults, seed %d", s.asked.Load(), faults, *seed)
	bad := newSoak(t, true)
	if series, _ := bad.run(t, *lasts/4, *seed); !grows(series[0]) {
		t.Errorf("a leak is not found out: %v", series[0])
	}
	t.Logf("proved: a leak of one decision in ten was found out")
}

package redisstore_test

import (
	"fmt"
	"math/rand/v2"
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

// damage is something that somebody else does to a key of ours.
var damage = map[string]func(rng *rand.Rand, rdb *redis.Client, key string){
	"a text":        func(_ *rand.Rand, rdb *redis.Client, key string) { rdb.Set(ctx, key, "text", 0) },
	"nothing in it": func(_ *rand.Rand, rdb *redis.Client, key string) { rdb.Set(ctx, key, "", 0) },
	"a number":      func(rng *rand.Rand, rdb *redis.Client, key string) { rdb.Set(ctx, key, rng.Int64(), 0) },
	"39 digits": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, fmt.Sprintf("%013d%013d%013d", rng.Int64N(1e13), rng.Int64N(1e13), rng.Int64N(1e13)), 0)
	},
	"a counter of the future": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, fmt.Sprintf("%013d%013d%013d", int64(9_999_999_999_999), 0, 0), 0)
	},
	"a full counter of now": func(_ *rand.Rand, rdb *redis.Client, key string) {
		const full = 9_999_999_999_999
		rdb.Set(ctx, key, fmt.Sprintf("%013d%013d%013d", time.Now().Unix()/3600, int64(full), int64(full)), 0)
	},
	"a counter of noise": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, noise(rng, 12), 0)
	},
	"a large counter of noise": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, noise(rng, 18), 0)
	},
	"a counter of next year": func(_ *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, numbers(0, time.Now().Truncate(time.Hour).UnixMicro()+365*24*3_600_000_000), 0)
	},
	"a large counter of next year": func(_ *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, numbers(0, 0, time.Now().Truncate(time.Hour).UnixMicro()+365*24*3_600_000_000), 0)
	},
	"the fullest counter": func(_ *rand.Rand, rdb *redis.Client, key string) {
		hour := time.Now().Truncate(time.Hour).UnixMicro()
		rdb.Set(ctx, key, numbers(core.MaxCounterRequests, core.MaxCounterRequests, hour), 0)
	},
	"the fullest short counter": func(_ *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, "\x7f\xff\xff\xff\xff\xff"+numbers(time.Now().Truncate(time.Hour).UnixMicro()), 0)
	},
	"38 digits": func(rng *rand.Rand, rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("1", 38), 0) },
	"bytes": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Set(ctx, key, noise(rng, rng.IntN(60)), 0)
	},
	"a list of noise": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Del(ctx, key)
		for range 1 + rng.IntN(40) {
			rdb.LPush(ctx, key, noise(rng, rng.IntN(20)))
		}
	},
	"a list of noise of our sizes": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Del(ctx, key)
		for range 1 + rng.IntN(40) {
			rdb.LPush(ctx, key, noise(rng, 9+3*rng.IntN(2)))
		}
	},
	"a list of plausible stamps": func(rng *rand.Rand, rdb *redis.Client, key string) {
		rdb.Del(ctx, key)
		for range 1 + rng.IntN(40) {
			stamp := time.Now().UnixMicro() - int64(time.Hour/time.Microsecond) + rng.Int64N(int64(2*time.Hour/time.Microsecond))
			rdb.LPush(ctx, key, numbers(stamp)+noise(rng, 3+3*rng.IntN(2)))
		}
	},
	"a hash": func(_ *rand.Rand, rdb *redis.Client, key string) { rdb.Del(ctx, key); rdb.HSet(ctx, key, "a", 1) },
	"a set":  func(_ *rand.Rand, rdb *redis.Client, key string) { rdb.Del(ctx, key); rdb.SAdd(ctx, key, "a") },
	"a sorted set": func(_ *rand.Rand, rdb *redis.Client, key string) {
		rdb.Del(ctx, key)
		rdb.ZAdd(ctx, key, redis.Z{Member: "a"})
	},
	"a stream": func(_ *rand.Rand, rdb *redis.Client, key string) {
		rdb.Del(ctx, key)
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}})
	},
	"an entry changed": func(rng *rand.Rand, rdb *redis.Client, key string) {
		if rdb.Type(ctx, key).Val() == "list" {
			rdb.LSet(ctx, key, rng.Int64N(rdb.LLen(ctx, key).Val()), noise(rng, 9+3*rng.IntN(2)))
		}
	},
	"entries removed": func(rng *rand.Rand, rdb *redis.Client, key string) {
		if rdb.Type(ctx, key).Val() == "list" {
			rdb.LTrim(ctx, key, int64(rng.IntN(3)), -1-int64(rng.IntN(3)))
		}
	},
	"a part overwritten": func(rng *rand.Rand, rdb *redis.Client, key string) {
		if rdb.Type(ctx, key).Val() == "string" {
			rdb.SetRange(ctx, key, int64(rng.IntN(45)), noise(rng, 1+rng.IntN(4)))
		}
	},
	"no TTL":  func(_ *rand.Rand, rdb *redis.Client, key string) { rdb.Persist(ctx, key) },
	"deleted": func(_ *rand.Rand, rdb *redis.Client, key string) { rdb.Del(ctx, key) },
}

// numbers are written as in a counter, 6 bytes each.
func numbers(all ...int64) string {
	var b []byte
	for _, n := range all {
		b = append(b, byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return string(b)
}

func noise(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// TestHostileState: whatever somebody writes to our keys, a fail-open limiter
// lets a bounded number through: each damaged key is reported at most once or
// twice, replaced, and enforces its limit again.
func TestHostileState(t *testing.T) {
	const requests = 10
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			rdb := redistest.Start(t).Client(t)
			store := redisstore.New(rdb)
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 5))
				l := limiter(t, core.Config{
					Name: fmt.Sprint(seed), Store: store, Timeout: patient,
					Limits: []core.Limit{core.PerHour(requests), core.PerHour(requests).Using(core.SlidingCounter).Named("counter")},
				})
				keys := redisstore.Keys(store, l, "k")
				if seed%4 == 3 { // the rule of one limit only
					one := l.Limits()[seed/4%2]
					l = limiter(t, core.Config{
						Name: l.Name(), Store: store, Timeout: patient, Limits: []core.Limit{one},
					})
					keys = redisstore.Keys(store, l, "k")
				}
				for range rng.IntN(requests) {
					l.AllowN(ctx, "k", 1+rng.Int64N(2))
				}
				for _, key := range keys {
					if rng.IntN(3) > 0 || len(keys) == 1 {
						harm(rng, rdb, key)
					}
				}
				admitted, reported := 0, 0
				var last error
				for range 40 {
					d := l.Allow(ctx, "k")
					if d.Err != nil {
						last = d.Err
						reported++
					} else if d.Allowed {
						admitted++
					}
				}
				if reported > 2*len(keys) {
					t.Errorf("seed %d: reported %d times, at last: %v", seed, reported, last)
				}
				if admitted > requests {
					t.Errorf("seed %d: %d admitted after the damage", seed, admitted)
				}
			}
		})
	}
}

// TestTTLComesBack: keys whose TTL somebody took get one again.
func TestTTLComesBack(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	rdb := redistest.Start(t).Client(t)
	store := redisstore.New(rdb)
	const window = 400 * time.Millisecond
	log := core.Per(1_000_000, window)
	l := limiter(t, core.Config{
		Store: store, Timeout: patient,
		Limits: []core.Limit{log, log.Using(core.SlidingCounter).Named("counter")},
	})
	for _, key := range redisstore.Keys(store, l, "k") {
		redistest.WaitFor(t, "a key with a TTL", func() error { // a slow machine may find it expired
			if l.Allow(ctx, "k"); !rdb.Persist(ctx, key).Val() {
				return fmt.Errorf("%s had none", key)
			}
			return nil
		})
		redistest.WaitFor(t, "a TTL", func() error {
			l.Allow(ctx, "k")
			if ttl := rdb.PTTL(ctx, key).Val(); ttl <= 0 {
				return fmt.Errorf("%s has %v", key, ttl)
			}
			return nil
		})
	}
	redistest.WaitFor(t, "the keys to expire", func() error {
		if n := rdb.DBSize(ctx).Val(); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
}

// TestEviction: where Redis evicts, a client whose counts were evicted gets its
// quota again, and nobody else does.
func TestEviction(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru", "--notify-keyspace-events", "Ee")
	rdb := server.Client(t)
	store := redisstore.New(rdb)
	var mu sync.Mutex
	evicted := map[string]int{}
	events := admin(t, server.Addr()).PSubscribe(ctx, "__keyevent@0__:evicted")
	if _, err := events.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	var heard atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := events.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			evicted[m.Payload]++
			mu.Unlock()
			heard.Add(1)
		}
	}()
	// A little more than it takes by itself.
	var used int
	for line := range strings.Lines(rdb.Info(ctx, "memory").Val()) {
		fmt.Sscanf(line, "used_memory:%d", &used)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", fmt.Sprint(used+1<<20)).Err(); err != nil {
		t.Fatal(err)
	}
	const requests, clients = 3, 6_000
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerHour(requests)}, OnStoreError: core.FailClosed, Timeout: patient,
	})
	var admitted [clients]atomic.Int64
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 1000 {
				i := rng.IntN(clients)
				if rng.IntN(3) == 0 {
					i %= 20 // these come often
				}
				d := l.Allow(ctx, fmt.Sprint(i))
				if d.Err != nil {
					t.Error(d.Err)
					return
				}
				if d.Allowed {
					admitted[i].Add(1)
				}
			}
		})
	}
	group.Wait()
	redistest.WaitFor(t, "the news of evictions", func() error {
		var n int64
		for line := range strings.Lines(rdb.Info(ctx, "stats").Val()) {
			fmt.Sscanf(line, "evicted_keys:%d", &n)
		}
		if n == 0 || n != heard.Load() {
			return fmt.Errorf("heard of %d of %d", heard.Load(), n)
		}
		return nil
	})
	again := 0
	for i := range clients {
		key := redisstore.Keys(store, l, fmt.Sprint(i))[0]
		n := admitted[i].Load()
		if n > int64(requests*(1+evicted[key])) {
			t.Errorf("client %d: %d admitted, evicted %d times", i, n, evicted[key])
		}
		if n > requests {
			again++
		}
	}
	t.Logf("%d evictions; %d of %d clients were admitted more than %d times", heard.Load(), again, clients, requests)
	events.Close()
	<-done
}

package redisstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// forgedLog returns entries, most of the sizes of ours, that another program may have written: times around now, in any
// order, and totals and costs that mostly add up.
func forgedLog(rng *rand.Rand, now time.Time, window time.Duration) (entries []any) {
	total := rng.Int64N(1 << 20)
	for range 1 + rng.IntN(12) {
		stamp := now.Add(-2*window + time.Duration(rng.Int64N(int64(6*window))))
		cost, dropped := int64(1), int64(0)
		long := rng.IntN(3) == 0
		if long {
			cost = rng.Int64N(1 << rng.IntN(25))
		}
		if rng.IntN(4) == 0 {
			total = rng.Int64N(1 << 20)
		}
		if rng.IntN(4) == 0 {
			dropped = rng.Int64N(16)
		}
		total = (total + cost) % (1 << 20)
		entry := logEntry(stamp, dropped, total)
		if long {
			entry += big48(cost)[3:]
		}
		if rng.IntN(20) == 0 {
			entry = "garbage"
		}
		entries = append(entries, entry)
	}
	return entries
}

// TestScriptForgedLogs: whatever list of entries stands at a key, the script decides as the facts say that it tells,
// or the list is foreign, and replaced.
func TestScriptForgedLogs(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		limit := core.PerMinute(3)
		c := bind(t, rdb, limit)
		rng := rand.New(rand.NewPCG(15, 23))
		foreign := 0
		for i := range 2000 {
			key := fmt.Sprint("k", i)
			rdb.RPush(ctx, c.keys(nil, key)[0].(string), forgedLog(rng, time.Now(), limit.Window)...)
			ask := core.Ask{Key: key, Cost: rng.Int64N(4), Peek: rng.IntN(3) == 0}
			_, err := c.Take(ctx, ask)
			switch {
			case err == nil:
				continue
			case !errors.Is(err, ErrForeign):
				t.Fatalf("list %d: %v, want a decision or %v", i, err, ErrForeign)
			case ask.Peek || ask.Cost == 0:
				continue
			}
			foreign++
			if d, err := c.Take(ctx, core.Ask{Key: key, Cost: 3}); err != nil || !d.Allowed {
				t.Errorf("list %d: after the error %+v, %v, want the whole limit", i, d, err)
			}
		}
		if foreign < 100 {
			t.Errorf("%d lists were foreign, want some", foreign)
		}
	})
}

// TestScriptForeignValues: whatever stands at a key of ours is reported once,
// replaced, and never admits without limit. A peek reports and leaves it.
func TestScriptForeignValues(t *testing.T) {
	values := map[string]func(rdb *redis.Client, key string){
		"a text":            func(rdb *redis.Client, key string) { rdb.Set(ctx, key, "hello", 0) },
		"an empty text":     func(rdb *redis.Client, key string) { rdb.Set(ctx, key, "", 0) },
		"a number":          func(rdb *redis.Client, key string) { rdb.Set(ctx, key, 12, 0) },
		"39 letters":        func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("x", 39), 0) },
		"39 of everything":  func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("1 e-", 9)+"123", 0) },
		"a hash":            func(rdb *redis.Client, key string) { rdb.HSet(ctx, key, "a", "b") },
		"a set":             func(rdb *redis.Client, key string) { rdb.SAdd(ctx, key, "a") },
		"a sorted set":      func(rdb *redis.Client, key string) { rdb.ZAdd(ctx, key, redis.Z{Score: 1, Member: "a"}) },
		"a list of numbers": func(rdb *redis.Client, key string) { rdb.LPush(ctx, key, 1, 2, 3) },
		"a list of texts":   func(rdb *redis.Client, key string) { rdb.LPush(ctx, key, "a", "", strings.Repeat("b", 13)) },
		"12 letters":        func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("x", 12), 0) },
		"18 letters":        func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("x", 18), 0) },
		"a counter that began at no time for that": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, counterValue(time.Now().Truncate(time.Minute).Add(time.Microsecond), 1, 1), 0)
		},
		"a counter with the mark of none": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, "-"+counterValue(time.Now().Truncate(time.Minute), 0, 1)[1:], 0)
		},
		"a counter of more than any limit": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, counterValue(time.Now().Truncate(time.Minute), 0, core.MaxCounterRequests+256), 0)
		},
		"a counter after more than any limit": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, counterValue(time.Now().Truncate(time.Minute), core.MaxCounterRequests+256, 0), 0)
		},
		"a list of which more was dropped than ever is": func(rdb *redis.Client, key string) {
			for range 12 {
				rdb.RPush(ctx, key, logEntry(time.Now(), 9, 1))
			}
		},
		"a list of which more was dropped than is there": func(rdb *redis.Client, key string) {
			rdb.RPush(ctx, key, logEntry(time.Now(), 8, 1))
		},
	}
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for name, put := range values {
			for _, a := range core.Algorithms() {
				rdb.FlushAll(ctx)
				c := bind(t, rdb, core.PerMinute(2).Using(a), core.PerHour(2))
				key := c.keys(nil, "k")[0].(string)
				put(rdb, key)
				before := dump(t, rdb, c, "k")
				if _, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1, Peek: true}); !errors.Is(err, ErrForeign) {
					t.Errorf("%s at a %v: a peek says %v", name, a, err)
				}
				if after := dump(t, rdb, c, "k"); after != before {
					t.Errorf("%s at a %v: a peek changed it to %s", name, a, after)
				}
				if _, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1}); !errors.Is(err, ErrForeign) {
					t.Errorf("%s at a %v: %v", name, a, err)
				}
				for i, want := range []bool{true, true, false} {
					if d, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1}); err != nil || d.Allowed != want {
						t.Errorf("%s at a %v: then request %d: %v, %v", name, a, i, d.Allowed, err)
					}
				}
			}
		}
	})
}

//go:build !race && !short

package script_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
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
			rdb.RPush(ctx, c.rule.Keys(nil, key)[0].(string), forgedLog(rng, time.Now(), limit.Window)...)
			ask := core.Ask{Key: key, Cost: rng.Int64N(4), Peek: rng.IntN(3) == 0}
			_, err := c.Take(ctx, ask)
			switch {
			case err == nil:
				continue
			case !errors.Is(err, script.ErrForeign):
				t.Fatalf("list %d: %v, want a decision or %v", i, err, script.ErrForeign)
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

// coarseText is a coarse log of a minute with so many bytes of totals, whose newest slot ends a microsecond before the
// begin of this second and ends.
func coarseText(width byte, ends time.Duration, size int) string {
	newest := time.Now().Truncate(time.Second).Add(ends - time.Microsecond)
	return string([]byte{width}) + big48(newest.UnixMicro()) + strings.Repeat("\x00", size-1) + "\x01"
}

// TestScriptFarAhead: both windows of a counter that is far ahead of the clock become one, of at most what any has.
func TestScriptFarAhead(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		c := bind(t, rdb, core.PerMinute(2).Using(core.SlidingCounter))
		const most = core.MaxCounterRequests + 255
		value := counterValue(time.Now().Truncate(time.Minute).Add(time.Hour), most, most)
		rdb.Set(ctx, c.rule.Keys(nil, "k")[0].(string), value, 0)
		for range 2 {
			if d, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1}); err != nil || d.Allowed {
				t.Errorf("%+v, %v, want a refusal", d, err)
			}
		}
	})
}

// TestScriptForeignValues: whatever stands at a key of ours is reported once,
// replaced, and never admits without limit. A peek reports and leaves it, and what is
// given back leaves what is no count at all.
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
		"a list with another text between": func(rdb *redis.Client, key string) {
			old := time.Now().Add(-10 * time.Minute)
			rdb.RPush(ctx, key, logEntry(old, 0, 1), logEntry(old, 0, 2), "garbage", logEntry(time.Now(), 0, 3))
		},
		"a list that begins with another text": func(rdb *redis.Client, key string) {
			rdb.RPush(ctx, key, "garbage", logEntry(time.Now().Add(time.Second), 0, 1))
		},
		"24 letters": func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("x", 24), 0) },
		"a bucket that holds nothing": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, bucketValue(time.Now(), 0, 0, 2), 0)
		},
		"a bucket of a whole part": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, bucketValue(time.Now(), 1, time.Minute.Microseconds(), 2), 0)
		},
		"a bucket that does not refill": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, bucketValue(time.Now(), 1, 0, 0), 0)
		},
		"a bucket that refills too fast": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, bucketValue(time.Now(), 1, 0, core.MaxCounterRequests+1), 0)
		},
		"a bucket of more than any limit": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, bucketValue(time.Now(), core.MaxCounterRequests+1, 0, core.MaxCounterRequests), 0)
		},
		"a bucket with a debt of more than is ever owed": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, bucketValue(time.Now(), 200, 0, 2), 0)
		},
		"the beginning of a coarse log": func(rdb *redis.Client, key string) { rdb.Set(ctx, key, "\x03\x00", 0) },
		"no whole number of totals": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, coarseText(3, time.Second, 7), 0)
		},
		"one total": func(rdb *redis.Client, key string) { rdb.Set(ctx, key, coarseText(6, time.Second, 6), 0) },
		"too many totals": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, coarseText(3, time.Second, 3*122), 0)
		},
		"totals of five bytes": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, coarseText(5, time.Second, 10), 0)
		},
		"totals of a slot that ends at no time for that": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, coarseText(3, time.Second-time.Microsecond, 6), 0)
		},
		"totals of a slot that ends a microsecond late": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, coarseText(3, time.Second+time.Microsecond, 6), 0)
		},
		"a list whose newest entry is not the latest": func(rdb *redis.Client, key string) {
			rdb.RPush(ctx, key, logEntry(time.Now().Add(time.Second), 0, 1), logEntry(time.Now(), 0, 2))
		},
		"a list that holds no units": func(rdb *redis.Client, key string) {
			rdb.RPush(ctx, key, logEntry(time.Now(), 0, 2), logEntry(time.Now(), 0, 1))
		},
		"too many units in totals": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, coarseText(6, time.Second, 6)+"\x81\xff\xff\xff\xff\xff", 0)
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
				key := c.rule.Keys(nil, "k")[0].(string)
				put(rdb, key)
				before := dump(t, rdb, c, "k")
				if _, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1, Peek: true}); !errors.Is(err, script.ErrForeign) {
					t.Errorf("%s at a %v: a peek says %v", name, a, err)
				}
				if after := dump(t, rdb, c, "k"); after != before {
					t.Errorf("%s at a %v: a peek changed it to %s", name, a, after)
				}
				back, want := core.Refund{Key: "k", Cost: 1, At: time.Now(), Units: 1}, int64(0)
				counter := len(rdb.Get(ctx, key).Val()) == 18
				if counter || strings.HasPrefix(name, "too many") { // it may hold units of now, and none of an hour ago
					back.At = back.At.Add(-time.Hour)
					// It reads as one of the algorithm's own.
					if a != core.Bucket && (a == core.SlidingLog || (a == core.SlidingCounter) == counter) {
						want = 1
					}
				}
				if n, err := c.Return(ctx, back); n != want || err != nil {
					t.Errorf("%s at a %v: %d given back, %v, want %d", name, a, n, err, want)
				}
				if _, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1}); !errors.Is(err, script.ErrForeign) {
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

// TestScriptErrors: an error of Redis at reading, or at the first writing, is the error of all requests that are
// decided together. Once anything is written, one at writing is the error of one request, and the others are answered.
func TestScriptErrors(t *testing.T) {
	rdb, server := startLua54(t)
	const text = "MISCONF not now"
	later := time.Now().Add(48 * time.Hour)
	steps := map[core.Algorithm]struct {
		reads  string
		writes []string
		full   func(key string) // at its limit, far ahead of the clock
	}{
		core.SlidingLog: {"LINDEX", []string{"RPUSH"}, func(key string) {
			rdb.RPush(ctx, key, logEntry(later, 0, 1), logEntry(later, 0, 2))
		}},
		core.SlidingCounter: {"GET", []string{"SET", "SETRANGE"}, func(key string) {
			rdb.Set(ctx, key, counterValue(later.Truncate(time.Hour), 0, 2), 0)
		}},
		core.CoarseLog: {"GET", []string{"SET", "SETRANGE"}, func(key string) {
			rdb.Set(ctx, key, coarseValue(later.Truncate(time.Minute), 0, 2), 0)
		}},
		core.Bucket: {"GET", []string{"SET", "SETRANGE"}, func(key string) {
			rdb.Set(ctx, key, bucketValue(later, 2, 0, 2), 0)
		}},
	}
	for _, a := range core.Algorithms() {
		c, step := bind(t, rdb, core.PerHour(2).Using(a)), steps[a]
		key := func(client string) string { return c.rule.Keys(nil, client)[0].(string) }
		for name, put := range map[string]func(){
			"nothing is written": nil, // by a peek
			"counted":            func() {},
			"replaced":           func() { rdb.HSet(ctx, key("first"), "a", "b") },
			"at its limit":       func() { step.full(key("first")) },
		} {
			for _, fails := range append([]string{step.reads}, step.writes...) {
				rdb.FlushAll(ctx)
				if put != nil {
					put()
				}
				if fails == "SETRANGE" {
					_, _ = c.Take(ctx, core.Ask{Key: "second", Cost: 1})
				}
				server.fails.Store(fails+" "+key("second"), text)
				var batch []request
				for i, client := range []string{"first", "second", "third"} {
					batch = append(batch, asking(c, client, 1, i > 0 || put != nil))
				}
				args := command(batch)
				cmd := rdb.Do(ctx, append([]any{"eval", c.rule.Script.Source}, args[2:]...)...)
				server.fails.Clear()
				if fails == step.reads || put == nil {
					if !mentionsError(cmd.Err(), text) || rdb.Exists(ctx, key("third")).Val() > 0 {
						t.Errorf("%v, %s, an error of %s: %v, want it to be that of all", a, name, fails, cmd.Err())
					}
					continue
				}
				now, rest := timed(t, cmd)
				_, rest, _ = c.rule.Read(rest, now, &batch[0].Ask, nil)
				_, rest, err := c.rule.Read(rest, now, &batch[1].Ask, nil)
				if !mentionsError(err, text) {
					t.Errorf("%v, %s, an error of %s: %v", a, name, fails, err)
				}
				if d, _, err := c.rule.Read(rest, now, &batch[2].Ask, nil); err != nil || !d.Allowed {
					t.Errorf("%v, %s, an error of %s: its neighbour: %+v, %v", a, name, fails, d, err)
				}
			}
		}
	}
}

func mentionsError(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

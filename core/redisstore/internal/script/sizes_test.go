//go:build !race && !short

package script_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestScriptLargeLog, with a window that outlasts the test by the server's own
// clock, expires most of a large log at once, and asks it for
// costs that make it look deep.
func TestScriptLargeLog(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	limits := []core.Limit{core.Per(100_000, time.Hour).Named("log")}
	c := bind(t, rdb, limits...)
	var client model.Client
	rng := rand.New(rand.NewPCG(1, 13))
	now := int64(1_790_000_000_000_000)
	check := func(cost int64, charge bool) {
		t.Helper()
		got := c.takeAt(t, "k", cost, charge, now)
		if want := client.Decide(limits, time.UnixMicro(now), cost, charge); got != want {
			t.Fatalf("at %d, cost %d:\n got %+v\nwant %+v", now, cost, got, want)
		}
	}
	for range 20_000 {
		now += rng.Int64N(180_000)
		check(1+rng.Int64N(3), true)
	}
	for range 200 {
		check(100_000-rng.Int64N(50_000), false)
	}
	now += 3_600_000_000 - 360_000_000 // of half an hour of history six minutes are left
	for range 100 {
		check(100_000-rng.Int64N(20_000), false)
	}
	check(5, true)
	if n := rdb.LLen(ctx, c.rule.Keys(nil, "k")[0].(string)).Val(); n > 10_000 {
		t.Errorf("%d entries are left", n)
	}
	for range 100 {
		now += rng.Int64N(7_200_000)
		check(rng.Int64N(3), true)
	}
	now += 36_000_000_000
	check(1, true)
	if n := rdb.LLen(ctx, c.rule.Keys(nil, "k")[0].(string)).Val(); n != 1 {
		t.Errorf("%d entries after all have expired, want 1", n)
	}
}

// TestScriptTotalsWrap: the running total of a long life passes 2^20.
func TestScriptTotalsWrap(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		limits := []core.Limit{core.Per(1_000_000, time.Hour).Named("log")}
		c := bind(t, rdb, limits...)
		var client model.Client
		now := int64(1_790_000_000_000_000)
		for i := range int64(120) {
			now += 900_000_000
			for _, cost := range []int64{190_001 + i, 1_000_000} {
				got := c.takeAt(t, "k", cost, true, now)
				if want := client.Decide(limits, time.UnixMicro(now), cost, true); got != want {
					t.Fatalf("step %d:\n got %+v\nwant %+v", i, got, want)
				}
			}
		}
		// A total of exactly 2^20 units and one entry that is dropped.
		c.takeAt(t, "exact", 1<<20-1_000_000, true, now)
		c.takeAt(t, "exact", 1, true, now+1800_000_000)
		c.takeAt(t, "exact", 999_999, true, now+3600_000_000)
		if d := c.takeAt(t, "exact", 0, false, now+3600_000_000-1); d.Remaining != 0 {
			t.Errorf("what has left counts no more after a step back, and what is there does: %+v", d)
		}
		const large = 0x030201 // a byte of each value
		for i, cost := range []int64{1, 1, 1, large} {
			c.takeAt(t, "large", cost, true, now+int64(i))
		}
		for more, want := range []bool{true, false} {
			d := c.takeAt(t, "large", 1_000_000-large+int64(more), false, now+3600_000_000+2)
			if d.Allowed != want {
				t.Errorf("after all but the last have left, %d units too many: %+v", more, d)
			}
		}
		c.takeAt(t, "later", 1<<20-1_000_000, true, now)
		c.takeAt(t, "later", 1_000_000, true, now+7200_000_000)
		if d := c.takeAt(t, "later", 0, false, now+7200_000_000); d.Remaining != 0 {
			t.Errorf("where nothing counted before: %+v", d)
		}
	})
}

// TestScriptTTLRenewed: a log whose TTL is counted down by the clock outlives each of its entries.
func TestScriptTTLRenewed(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		c, rng := bind(t, rdb, core.Per(1000, time.Hour)), rand.New(rand.NewPCG(1, 17))
		key, now := c.rule.Keys(nil, "k")[0].(string), int64(1_790_000_000_000_000)
		for step := range 100 {
			passed := time.Duration(rng.Int64N(900)) * time.Second
			if step > 50 { // of some halves of a window no request is the second
				passed *= 4
			}
			now += passed.Microseconds()
			if step > 0 {
				rdb.PExpire(ctx, key, rdb.PTTL(ctx, key).Val()-passed)
			}
			c.takeAt(t, "k", 1, true, now)
			if ttl := rdb.PTTL(ctx, key).Val() - longer; ttl < time.Hour-time.Minute {
				t.Fatalf("step %d: what counts for an hour is gone after %v", step, ttl)
			}
		}
	})
}

// TestScriptDropped: in steady state a log holds few entries that count no more, and none when all have expired.
func TestScriptDropped(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const length = 50
		c := bind(t, rdb, core.Per(1000, length*time.Second))
		key := c.rule.Keys(nil, "k")[0].(string)
		now := int64(1_790_000_000_000_000)
		longest, shortest := int64(0), int64(length+100)
		for i := range 4 * length {
			now += 1_000_000
			c.takeAt(t, "k", 1, true, now)
			if i >= length {
				n := rdb.LLen(ctx, key).Val()
				longest, shortest = max(longest, n), min(shortest, n)
			}
		}
		if longest != length+8 || shortest != length {
			t.Errorf("a log of %d entries is a list of %d to %d, want up to 8 more", length, shortest, longest)
		}
		if d := c.takeAt(t, "k", 0, false, now+5_000_000); d.Remaining != 1000-length+5 { // the fifth leaves just then
			t.Errorf("after five have left %d remain, want %d", d.Remaining, 1000-length+5)
		}
		c.takeAt(t, "k", 1, true, now+2*length*1_000_000)
		if n := rdb.LLen(ctx, key).Val(); n != 1 {
			t.Errorf("%d entries after all have expired, want 1", n)
		}
	})
}

// TestScriptLargeCounts: costs of up to three bytes in a log, counts of up to six bytes, also where those of a coarse
// log outgrow three, and windows after them.
func TestScriptLargeCounts(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 15))
			window := time.Duration(1000+rng.Int64N(1e9)) * time.Microsecond
			if seed%2 == 0 {
				window = time.Minute
			}
			few, bits := core.Per(1+rng.Int64N(1<<(20+rng.IntN(21))), window), 38
			algorithm := core.Algorithm(seed / 2 % 3)
			if algorithm == core.SlidingLog {
				few.Requests, bits = 1+rng.Int64N(1<<(10+rng.IntN(10))), 18
			}
			limits := []core.Limit{few.Using(algorithm).Named("a")}
			if seed%3 == 0 {
				many := core.Per(1+rng.Int64N(core.MaxCounterRequests), 3*window)
				limits = append(limits, many.Using(core.SlidingCounter).Named("b"))
			}
			c, client, key := bind(t, rdb, limits...), model.Client{}, fmt.Sprint("client ", seed)
			now, back := int64(1_790_000_000_000_000)+rng.Int64N(1e12), core.Refund{}
			for step := range 40 {
				switch rng.IntN(12) {
				case 0:
					now += rng.Int64N(3 * window.Microseconds())
				case 1:
					now -= rng.Int64N(window.Microseconds())
				default:
					now += rng.Int64N(window.Microseconds() / 8)
				}
				cost := rng.Int64N(2 << rng.IntN(bits))
				if rng.IntN(2) == 0 {
					cost = min(cost, 1)
				}
				before := dump(t, rdb, c, key)
				if back.Cost > 0 && rng.IntN(3) == 0 {
					back.Units = 1 + rng.Int64N(back.Cost)
					got, want := c.returnAt(t, back, now), client.Return(limits, time.UnixMicro(now), back)
					if got != want {
						t.Fatalf("seed %d step %d: %v, %+v: %d units taken back, want %d\nbefore %s",
							seed, step, limits, back, got, want, before)
					}
					back.Cost = 0
				}
				got := c.takeAt(t, key, cost, true, now)
				if want := client.Decide(limits, time.UnixMicro(now), cost, true); got != want {
					t.Fatalf("seed %d step %d: %v, cost %d:\n got %+v\nwant %+v\nbefore %s",
						seed, step, limits, cost, got, want, before)
				}
				if got.Allowed {
					back = core.Refund{Key: key, Cost: cost, At: got.At}
				}
				for i, k := range c.rule.Keys(nil, key) {
					if ttl := rdb.PTTL(ctx, k.(string)).Val(); ttl == -1 {
						t.Fatalf("seed %d step %d: %v has a TTL of %v", seed, step, limits[i], ttl)
					}
				}
			}
			rdb.FlushAll(ctx)
		}
	})
}

// TestScriptManyLimits: the variables of as many limits as there may be fit
// into the script, whatever their algorithms.
func TestScriptManyLimits(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, logs := range []int{0, 1, 8, 15, 16} {
			limits := make([]core.Limit, script.MaxLimits)
			for i := range limits {
				limits[i] = core.PerHour(int64(3 + i)).Named(fmt.Sprint(logs, "-", i))
				if i*7%script.MaxLimits >= logs {
					limits[i] = limits[i].Using(core.SlidingCounter)
				}
			}
			c := bind(t, rdb, limits...)
			var client model.Client
			now := int64(1_790_000_000_000_000)
			for step := range 8 {
				now += 1_000_000_000
				cost := int64(1 + step%2)
				got := c.takeAt(t, "k", cost, true, now)
				if want := client.Decide(limits, time.UnixMicro(now), cost, true); got != want {
					t.Fatalf("%d logs, step %d:\n got %+v\nwant %+v", logs, step, got, want)
				}
			}
		}
	})
}

// TestCoarseTotals: running totals of a coarse log get 6 bytes when 2^24 units count, and not a unit later; and they go
// on at 0 after 2^48.
func TestCoarseTotals(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const now = int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.PerMinute(1<<30).Using(core.CoarseLog))
		for used, cost := range map[int64][2]int64{1 << 24: {1<<24 - 5, 5}, 1<<24 - 1: {1<<24 - 6, 5}} {
			key := fmt.Sprint(used)
			c.takeAt(t, key, cost[0], true, now)
			c.takeAt(t, key, cost[1], true, now)
			if d := c.takeAt(t, key, 0, false, now); d.Remaining != 1<<30-used {
				t.Errorf("%d units count, want %d", 1<<30-d.Remaining, used)
			}
		}
		for width, at := range map[int]string{
			3: "\xff\xff\xf0\xff\xff\xfa", 6: "\xff\xff\xff\xff\xff\xf0\xff\xff\xff\xff\xff\xfa",
		} {
			name := fmt.Sprint("width ", width)
			c.takeAt(t, name, 1<<(4*width), true, now)
			key := c.rule.Keys(nil, name)[0].(string)
			value := []byte(rdb.Get(ctx, key).Val())
			copy(value[7:], at) // ten units
			rdb.Set(ctx, key, value, time.Hour)
			used := int64(10)
			holds := func(after int64, what string) {
				t.Helper()
				if d := c.takeAt(t, name, 0, false, now+after); d.Remaining != 1<<30-used {
					t.Errorf("%s, %s: %d units count, want %d", name, what, 1<<30-d.Remaining, used)
				}
			}
			for i := range int64(2) { // in the same slot, and in the next
				used += 20
				c.takeAt(t, name, 20, true, now+i*1_000_000)
				holds(i*1_000_000, "a request more")
			}
			used -= 20
			c.returnAt(t, core.Refund{Key: name, Cost: 20, At: time.UnixMicro(now), Units: 20}, now+1_000_000)
			holds(1_000_000, "given back")
			used += 25
			c.takeAt(t, name, 5, true, now)
			c.chargeAt(t, name, 20, now)
			holds(0, "charged")
			rdb.Set(ctx, key, value, time.Hour)
			used = 10 + 1<<24
			c.takeAt(t, name, 1<<24, true, now+1_000_000)
			holds(1_000_000, "six bytes")
			rdb.Set(ctx, key, value, time.Hour)
			c.takeAt(t, name, 20, true, now)
			back := core.Refund{Key: name, Cost: 1 << 20, At: time.UnixMicro(now), Units: 1 << 20}
			if n := c.returnAt(t, back, now); n != 30 {
				t.Errorf("%s: %d units taken back of a slot with 30", name, n)
			}
		}
		c.takeAt(t, "old", 1, true, now)
		key := c.rule.Keys(nil, "old")[0].(string)
		value := rdb.Get(ctx, key).Val()[:7]
		for _, total := range []int64{0, 0xc00000, 0xc00000 + 9_000_000, 0xc00000 + 9_000_001} { // the first slot has left
			value += big48(total)[3:]
		}
		rdb.Set(ctx, key, value, time.Hour)
		c.takeAt(t, "old", 10_000_000, true, now+59_000_000)
		if d := c.takeAt(t, "old", 0, false, now+59_000_000); d.Remaining != 1<<30-19_000_001 {
			t.Errorf("%d units count, want 19000001", 1<<30-d.Remaining)
		}
	})
}

// TestCoarseFull: a slot holds as many units as any limit can tell of, and no slot has room of another.
func TestCoarseFull(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const most, now = core.MaxCounterRequests, int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.PerMinute(most).Using(core.CoarseLog))
		c.chargeAt(t, "k", 9, now-2_000_000)
		for _, cost := range []int64{5, most, 5} {
			c.chargeAt(t, "k", cost, now)
		}
		c.chargeAt(t, "k", 7, now+2_000_000)
		back := core.Refund{Key: "k", Cost: most, At: time.UnixMicro(now), Units: most}
		if n := c.returnAt(t, back, now+2_000_000); n != most {
			t.Errorf("%d units were returned, want %d", n, int64(most))
		}
		if d := c.takeAt(t, "k", 0, false, now+2_000_000); d.Remaining != most-16 {
			t.Errorf("%d units count, want 16", most-d.Remaining)
		}
	})
}

//go:build !race && !short

package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/lease"
	"github.com/sashlimit/sash/core/internal/window"
)

// TestScriptDropped: in steady state a log holds few entries that count no more, and none when all have expired.
func TestScriptDropped(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const length = 50
		c := bind(t, rdb, core.Per(1000, length*time.Second))
		key := c.key("k")
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
		c.takeAt(t, "k", 1, true, now+2*length*1_000_000)
		if n := rdb.LLen(ctx, key).Val(); n != 1 {
			t.Errorf("%d entries after all have expired, want 1", n)
		}
	})
}

// TestScriptTotals: a running total of exactly 2^20 units begins anew, with one entry that is dropped.
func TestScriptTotals(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const most, now, hour = core.MaxLogRequests, int64(1_790_000_000_000_000), int64(3600_000_000)
		c := bind(t, rdb, core.PerHour(most))
		c.takeAt(t, "k", 1<<20-most, true, now)
		c.takeAt(t, "k", 1, true, now+hour/2)
		c.takeAt(t, "k", most-1, true, now+hour)
		if d := c.takeAt(t, "k", 0, false, now+hour-1); d.Remaining != 0 {
			t.Errorf("what has left counts no more after a step back, and what is there does: %+v", d)
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
			key := c.key(name)
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
		key := c.key("old")
		value := rdb.Get(ctx, key).Val()[:7]
		for _, total := range []int64{0, 12 << 20, 12<<20 + 9_000_000, 12<<20 + 9_000_001} { // the first slot has left
			value += big48(total)[3:]
		}
		rdb.Set(ctx, key, value, time.Hour)
		c.takeAt(t, "old", 10_000_000, true, now+59_000_000)
		if d := c.takeAt(t, "old", 0, false, now+59_000_000); d.Remaining != 1<<30-19_000_001 {
			t.Errorf("%d units count, want 19000001", 1<<30-d.Remaining)
		}
	})
}

// TestCoarseFull: a slot holds as many units as any limit can tell of, and no slot has room of another. A counter gives
// as many back.
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
		c = bind(t, rdb, core.PerMinute(most).Using(core.SlidingCounter))
		c.takeAt(t, "k", most, true, now)
		if n := c.returnAt(t, back, now); n != most || rdb.Exists(ctx, c.key("k")).Val() != 1 {
			t.Errorf("%d units of a counter were returned, want %d", n, int64(most))
		}
		if d := c.takeAt(t, "k", 0, false, now); d.Remaining != most {
			t.Errorf("after that %d units count", most-d.Remaining)
		}
	})
}

// TestChargeFull: a charge beyond what a log holds makes all units count from then on, as many as any limit can tell.
func TestChargeFull(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		// What fits exactly leaves as it came.
		const exact, hour = int64(1_790_000_000_000_000), int64(3600_000_000)
		c := bind(t, rdb, core.Per(core.MaxLogRequests, time.Hour))
		c.chargeAt(t, "exact", 1, exact)
		c.chargeAt(t, "exact", core.MaxLogRequests-1, exact+1)
		if d := c.takeAt(t, "exact", 0, false, exact+hour); d.Remaining != 1 {
			t.Errorf("after the oldest unit has left: %+v", d)
		}
		for _, at := range []int64{0, 1, hour / 2} { // two have left when the charge comes
			c.takeAt(t, "old", 1, true, exact+at)
		}
		c.chargeAt(t, "old", core.MaxLogRequests-1, exact+hour+1)
		if d := c.takeAt(t, "old", 0, false, exact+hour/2+hour); d.Remaining != 1 {
			t.Errorf("after the third of the old units has left: %+v", d)
		}
		for _, cost := range []int64{core.MaxLogRequests, core.MaxLogRequests + 1, 2 * core.MaxLogRequests} {
			key := fmt.Sprint(cost)
			c.chargeAt(t, key, 1, exact) // a unit stays with those of the charge
			d := c.chargeAt(t, key, cost, exact+1)
			c.returnAt(t, core.Refund{Key: key, Cost: cost, At: d.At, Units: core.MaxLogRequests}, exact+1)
			d = c.takeAt(t, key, 0, false, exact+1)
			if d.Remaining != core.MaxLogRequests-1 || d.ResetAfter != time.Hour {
				t.Errorf("after a charge of %d is given back: %+v", cost, d)
			}
		}
	})
}

// TestChargeRewound: a charge beyond what a log holds, on a log that is too far ahead of the clock, leaves the other
// logs of the rule with what they count.
func TestChargeRewound(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const minute, now = int64(60_000_000), int64(1_790_000_000_000_000)
		limits := []core.Limit{core.Per(core.MaxLogRequests, time.Hour), core.Per(core.MaxLogRequests, time.Minute)}
		c := bind(t, rdb, limits...)
		c.chargeAt(t, "k", 300_000, now-2*minute)
		c.chargeAt(t, "k", 300_000, now)
		back := now - 30_000_000 // which is more than an eighth of a minute
		c.chargeAt(t, "k", 500_000, back)
		if d := c.takeAt(t, "k", 200_001, false, back); d.Allowed {
			t.Errorf("%+v", d)
		}
		minutes := bind(t, rdb, limits[1])
		if d := minutes.takeAt(t, "k", 0, false, back); d.Remaining != 200_000 {
			t.Errorf("of the log that has room for the charge: %+v, and 800,000 units count", d)
		}
		hours := bind(t, rdb, limits[0])
		if d := hours.takeAt(t, "k", 1, false, back+3540_000_000); d.Allowed {
			t.Errorf("of the log that has no room for the charge: %+v", d)
		}
	})
}

// TestReturnDepth: the units of a request with more than window.ReturnDepth newer ones stay, and of a request of many
// entries those behind as many of its own.
func TestReturnDepth(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const now = int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.PerHour(100_000))
		for _, r := range []struct{ own, newer, want int }{
			{1, window.ReturnDepth, 1}, {1, window.ReturnDepth + 1, 0}, {700, 600, 700},
			{window.ReturnDepth + 10, 0, window.ReturnDepth + 1},
		} {
			rdb.FlushAll(ctx)
			var entries []any
			for i := range r.own + r.newer {
				entries = append(entries, logEntry(time.UnixMicro(now+int64(i/r.own)), 0, int64(i+1)))
			}
			rdb.RPush(ctx, c.key("k"), entries...)
			back := core.Refund{Key: "k", Cost: 5000, At: time.UnixMicro(now), Units: 5000}
			if n := c.returnAt(t, back, now+2000); n != int64(r.want) {
				t.Errorf("%d taken back of %d entries with %d newer ones, want %d", n, r.own, r.newer, r.want)
			}
		}
	})
}

// TestReturnEdges: a counter whose windows have ended at this moment holds nothing of a later window.
func TestReturnEdges(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		start := time.UnixMicro(1_790_000_040_000_000)
		c := bind(t, rdb, core.PerMinute(10).Using(core.SlidingCounter))
		put(rdb, c.key("k"), "set", counterValue(start, 0, 3))
		back := core.Refund{Key: "k", Cost: 5, Units: 5, At: start.Add(time.Minute)}
		if n := c.returnAt(t, back, start.Add(2*time.Minute).UnixMicro()); n != 5 {
			t.Errorf("%d of 5 units count no more, want 5", n)
		}
	})
}

// TestLeaseStepBack: the longest lease that is allowed is counted at its end, even if the
// server's clock steps back a little, as in a failover.
func TestLeaseStepBack(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, limit := range []core.Limit{core.PerSecond(100), core.PerHour(100)} {
			c, client := bind(t, rdb, limit), limit.Window.String()
			terms, _ := lease.Terms{Size: 100, Lifetime: lease.MaxLifetime}.For(c.rule.Limits)
			lifetime := terms.Lifetime
			now := int64(1_790_000_000_000_000)
			if d := c.with(c.rule.Limits, lifetime).takeAt(t, client, 10, true, now); !d.Allowed {
				t.Fatalf("%+v", d)
			}
			step := min(15*time.Second, limit.Window/40)
			d := c.takeAt(t, client, 91, true, now-step.Microseconds())
			if want := step + lifetime + limit.Window; d.Allowed || d.RetryAfter != want {
				t.Errorf("%v: %+v, want %v", limit, d, want)
			}
		}
	})
}

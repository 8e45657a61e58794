//go:build !race && !short

package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestScriptClockWasAheadTogether: of requests that are decided in one script, the first
// rewrites what is too far ahead, and those that follow find it.
func TestScriptClockWasAheadTogether(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		c := bind(t, rdb, core.PerHour(5), core.PerHour(6).Using(core.SlidingCounter).Named("counter"))
		keys := c.rule.Keys(nil, "k")
		later := time.Now().Add(48 * time.Hour)
		for i := range int64(3) {
			rdb.RPush(ctx, keys[0].(string), logEntry(later, 0, 1+i))
		}
		rdb.Set(ctx, keys[1].(string), counterValue(later.Truncate(time.Hour), 1, 2), 0)
		batch := make([]request, 4)
		for i := range batch {
			batch[i] = asking(c, "k", 1, true)
		}
		args := command(batch)
		now, reply := timed(t, rdb.Do(ctx, append([]any{"eval", c.rule.Script.Source}, args[2:]...)...))
		for i, r := range batch {
			var d core.Decision
			var err error
			d, reply, err = r.ledger.rule.Read(reply, now, &core.Ask{Cost: 1}, nil)
			if err != nil || d.Allowed != (i < 2) || d.Remaining != max(0, 1-int64(i)) || d.RetryAfter > time.Hour {
				t.Errorf("request %d: %+v, %v", i, d, err)
			}
		}
		if n := rdb.LLen(ctx, keys[0].(string)).Val(); n != 3 {
			t.Errorf("a log of %d entries, want one for those before, and two", n)
		}
		for _, key := range keys {
			if ttl := rdb.PTTL(ctx, key.(string)).Val(); ttl < time.Hour || ttl > 2*time.Hour+2*time.Second {
				t.Errorf("%v has a TTL of %v", key, ttl)
			}
		}
	})
}

// TestScriptStampsInBatch: each request of a batch is counted at a stamp of its own, which is later than TIME for a
// client that was counted ahead of it.
func TestScriptStampsInBatch(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		c := bind(t, rdb, core.PerHour(5))
		newest := func(client string) string { return rdb.LIndex(ctx, c.rule.Keys(nil, client)[0].(string), -1).Val()[:6] }
		later := time.Now().Add(time.Minute) // less than the allowance
		rdb.RPush(ctx, c.rule.Keys(nil, "b")[0].(string), logEntry(later, 0, 1))
		var batch []request
		for _, client := range []string{"a", "b", "c"} {
			batch = append(batch, asking(c, client, 1, true))
		}
		args := command(batch)
		now, _ := timed(t, rdb.Do(ctx, append([]any{"eval", c.rule.Script.Source}, args[2:]...)...))
		for client, want := range map[string]int64{"a": now, "b": later.UnixMicro(), "c": now} {
			if got := newest(client); got != big48(want) {
				t.Errorf("%s is counted at %x, want %x", client, got, big48(want))
			}
		}
	})
}

// TestScriptStampOfNeighbour: a log is counted no earlier than where the window of a counter beside it begins, or the
// slot of a coarse log, and two windows later all has left.
func TestScriptStampOfNeighbour(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const begun, minute = int64(1_790_000_040_000_000), int64(60_000_000)
		for _, a := range core.Algorithms()[1:] {
			key := a.String()
			c := bind(t, rdb, core.PerMinute(2).Using(a), core.PerHour(10))
			c.takeAt(t, key, 1, true, begun)
			rdb.Del(ctx, c.rule.Keys(nil, key)[1].(string))
			c.takeAt(t, key, 1, true, begun-10)
			entry := rdb.LIndex(ctx, c.rule.Keys(nil, key)[1].(string), -1).Val()
			if !strings.HasPrefix(entry, big48(begun)) {
				t.Errorf("beside a %v that begins at %x: %x", a, big48(begun), entry)
			}
			if d := c.takeAt(t, key, 2, false, begun+2*minute); !d.Allowed {
				t.Errorf("%v, two windows later: %+v", a, d)
			}
		}
	})
}

// TestScriptClockWasAheadWhenFull: a server without memory refuses a client that it knows.
// It has what is held count from now on, which takes no memory.
func TestScriptClockWasAheadWhenFull(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, a := range core.Algorithms() {
		rdb.FlushAll(ctx)
		c := bind(t, rdb, core.PerHour(2).Using(a))
		key := c.rule.Keys(nil, "k")[0].(string)
		later := time.Now().Add(48 * time.Hour)
		switch a {
		case core.SlidingLog:
			rdb.RPush(ctx, key, logEntry(later, 0, 1), logEntry(later, 0, 2))
		case core.SlidingCounter:
			rdb.Set(ctx, key, counterValue(later.Truncate(time.Hour), 0, 2), 0)
		case core.CoarseLog:
			rdb.Set(ctx, key, coarseValue(later.Truncate(time.Minute), 0, 2), 0)
		case core.Bucket:
			rdb.Set(ctx, key, bucketValue(later, 2, 0, 2), 0)
		}
		before := dump(t, rdb, c, "k")
		rdb.ConfigSet(ctx, "maxmemory", "1")
		d, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1})
		if err != nil || d.Allowed || d.RetryAfter > 2*time.Hour {
			t.Errorf("%v: %+v, %v", a, d, err)
		}
		larger := bind(t, rdb, core.PerHour(3).Using(a))
		if d, err := larger.Take(ctx, core.Ask{Key: "k", Cost: 1}); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("%v: %+v, %v", a, d, err)
		}
		if after := dump(t, rdb, c, "k"); after == before {
			t.Errorf("%v: %s stays", a, before)
		}
		rdb.ConfigSet(ctx, "maxmemory", "0")
	}
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

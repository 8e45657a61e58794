//go:build !race && !short

package script_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
		cost, dropped, long := int64(1), int64(0), ""
		if rng.IntN(3) == 0 {
			cost = rng.Int64N(1 << rng.IntN(25))
			long = big48(cost)[3:]
		}
		if rng.IntN(4) == 0 {
			total = rng.Int64N(1 << 20)
		}
		if rng.IntN(4) == 0 {
			dropped = rng.Int64N(16)
		}
		total = (total + cost) % (1 << 20)
		entries = append(entries, []any{logEntry(stamp, dropped, total) + long, "garbage"}[rng.IntN(20)/19])
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
			rdb.RPush(ctx, c.key(key), forgedLog(rng, time.Now(), limit.Window)...)
			ask := core.Ask{Key: key, Cost: rng.Int64N(4), Peek: rng.IntN(3) == 0}
			_, err := c.take(ask)
			switch {
			case err == nil:
				continue
			case !errors.Is(err, script.ErrCorrupt):
				t.Fatalf("list %d: %v, want a decision or %v", i, err, script.ErrCorrupt)
			case ask.Peek || ask.Cost == 0:
				continue
			}
			foreign++
			if d, err := c.take(core.Ask{Key: key, Cost: 3}); err != nil || !d.Allowed {
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
		rdb.Set(ctx, c.key("k"), value, 0)
		for range 2 {
			if d, err := c.take(core.Ask{Key: "k", Cost: 1}); err != nil || d.Allowed {
				t.Errorf("%+v, %v, want a refusal", d, err)
			}
		}
	})
}

// foreignValues are the commands that have a key hold what is not the store's, under a limit of a minute.
func foreignValues() map[string][]any {
	const most = core.MaxCounterRequests
	now := time.Now()
	old, later := now.Add(-10*time.Minute), now.Add(time.Second)
	minute := now.Truncate(time.Minute)
	return map[string][]any{
		"a text":            {"set", "hello"},
		"an empty text":     {"set", ""},
		"a number":          {"set", 12},
		"39 letters":        {"set", strings.Repeat("x", 39)},
		"39 of everything":  {"set", strings.Repeat("1 e-", 9) + "123"},
		"a hash":            {"hset", "a", "b"},
		"a set":             {"sadd", "a"},
		"a sorted set":      {"zadd", 1, "a"},
		"a list of numbers": {"rpush", 1, 2, 3},
		"a list of texts":   {"rpush", "a", "", strings.Repeat("b", 13)},
		"12 letters":        {"set", strings.Repeat("x", 12)},
		"18 letters":        {"set", strings.Repeat("x", 18)},
		"24 letters":        {"set", strings.Repeat("x", 24)},

		"a counter that began at no time for that": {"set", counterValue(minute.Add(time.Microsecond), 1, 1)},
		"a counter with the mark of none":          {"set", "-" + counterValue(minute, 0, 1)[1:]},
		"a counter of more than any limit":         {"set", counterValue(minute, 0, most+256)},
		"a counter after more than any limit":      {"set", counterValue(minute, most+256, 0)},

		"a bucket that owes nothing":                        {"set", bucketValue(now, 0, 0, 2)},
		"a bucket with a debt of more than is ever counted": {"set", bucketValue(now, 1<<52+1, 0, 0)},

		"the beginning of a coarse log":                  {"set", "\x03\x00"},
		"no whole number of totals":                      {"set", coarseText(3, time.Second, 7)},
		"one total":                                      {"set", coarseText(6, time.Second, 6)},
		"too many totals":                                {"set", coarseText(3, time.Second, 3*122)},
		"totals of five bytes":                           {"set", coarseText(5, time.Second, 10)},
		"totals of a slot that ends at no time for that": {"set", coarseText(3, time.Second-time.Microsecond, 6)},
		"totals of a slot that ends a microsecond late":  {"set", coarseText(3, time.Second+time.Microsecond, 6)},
		"too many units in totals":                       {"set", coarseText(6, time.Second, 6) + big48(0x82<<40-1)},

		"a list that begins with another text":           {"rpush", "garbage", logEntry(later, 0, 1)},
		"a list whose newest entry is not the latest":    {"rpush", logEntry(later, 0, 1), logEntry(now, 0, 2)},
		"a list that holds no units":                     {"rpush", logEntry(now, 0, 2), logEntry(now, 0, 1)},
		"a list of which more was dropped than is there": {"rpush", logEntry(now, 8, 1)},
		"a list with another text between": {
			"rpush", logEntry(old, 0, 1), logEntry(old, 0, 2), "garbage", logEntry(now, 0, 3),
		},
		"a list of which more was dropped than ever is": append(
			[]any{"rpush"}, slices.Repeat([]any{logEntry(now, 9, 1)}, 12)...),
	}
}

// TestScriptForeignValues: whatever stands at a key of ours is reported once,
// replaced, and never admits without limit. A peek reports and leaves it, and what is
// given back leaves what is no count at all.
func TestScriptForeignValues(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, a := range core.Algorithms() {
			for name, command := range foreignValues() {
				rdb.FlushAll(ctx)
				c := bind(t, rdb, core.PerMinute(2).Using(a), core.PerHour(2))
				key := c.key("k")
				put(rdb, key, command...)
				before := dump(t, rdb, c, "k")
				if _, err := c.take(core.Ask{Key: "k", Cost: 1, Peek: true}); !errors.Is(err, script.ErrCorrupt) {
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
				if n, err := c.giveBack(back); n != want || err != nil {
					t.Errorf("%s at a %v: %d given back, %v, want %d", name, a, n, err, want)
				}
				if _, err := c.take(core.Ask{Key: "k", Cost: 1}); !errors.Is(err, script.ErrCorrupt) {
					t.Errorf("%s at a %v: %v", name, a, err)
				}
				for i, want := range []bool{true, true, false} {
					if d, err := c.take(core.Ask{Key: "k", Cost: 1}); err != nil || d.Allowed != want {
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
	for _, a := range core.Algorithms() {
		c, reads, writes := bind(t, rdb, core.PerDay(2).Using(a)), "GET", []string{"SET"}
		switch a {
		case core.SlidingLog:
			reads, writes = "LINDEX", []string{"RPUSH"}
		case core.SlidingCounter:
			writes = append(writes, "SETRANGE")
		}
		for name, put := range map[string]func(){
			"nothing is written": nil, // by a peek
			"counted":            func() {},
			"replaced":           func() { rdb.HSet(ctx, c.key("first"), "a", "b") },
			"at its limit":       func() { putFull(rdb, c.key("first"), a) },
		} {
			for _, fails := range append(writes, reads) {
				rdb.FlushAll(ctx)
				if put != nil {
					put()
				}
				if fails == "SETRANGE" {
					_, _ = c.take(core.Ask{Key: "second", Cost: 1})
				}
				server.fails.Store(fails+" "+c.key("second"), text)
				var batch []request
				for i, client := range []string{"first", "second", "third"} {
					batch = append(batch, asking(c, client, 1, i > 0 || put != nil))
				}
				reply, err := together(rdb, batch)
				server.fails.Clear()
				if fails == reads || put == nil {
					if !mentionsError(err, text) || rdb.Exists(ctx, c.key("third")).Val() > 0 {
						t.Errorf("%v, %s, an error of %s: %v, want it to be that of all", a, name, fails, err)
					}
					continue
				}
				decisions, errs := readTogether(batch, reply)
				if !mentionsError(errs[1], text) {
					t.Errorf("%v, %s, an error of %s: %v", a, name, fails, errs[1])
				}
				if errs[2] != nil || !decisions[2].Allowed {
					t.Errorf("%v, %s, an error of %s: its neighbour: %+v, %v", a, name, fails, decisions[2], errs[2])
				}
			}
		}
	}
}

func mentionsError(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

// TestKeyGone: where a key expires between reading and writing, since the clock steps back, what is written is whole
// and has a TTL: a request, a few, and a return.
func TestKeyGone(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const now = int64(1_790_000_000_000_000)
		for _, a := range core.Algorithms() {
			c := bind(t, rdb, core.PerMinute(5000).Using(a))
			key := c.key("k")
			whole := func(what string, at int64) {
				t.Helper()
				ttl := rdb.PTTL(ctx, key).Val()
				if _, err := c.rule.ReadAlone(c.runAt(t, c.rule.Script, c.evalArgs(core.Ask{Key: "k"}), at),
					&core.Ask{Key: "k"}, nil); err != nil || ttl == -1 {
					t.Errorf("%v, %s: the key holds %s for %v: %v", a, what, dump(t, rdb, c, "k"), ttl, err)
				}
			}
			const counting = "if admitted and counts and not broken then\n"
			gone := script.Make(strings.Replace(c.rule.Script.Source, counting,
				counting+"call('DEL', KEYS[key + 1])\n", 1))
			if gone.SHA == c.rule.Script.SHA {
				t.Fatalf("the script does not say %q", counting)
			}
			before := strings.NewReplacer("call('LTRIM', key", "call('DEL', key)\ncall('LTRIM', key",
				"call('PEXPIRE', key, ttl)", "call('DEL', key)\ncall('PEXPIRE', key, ttl)")
			back := script.Make(before.Replace(script.Return().Source))
			for i, cost := range []int64{1, 1, 300} {
				rdb.Del(ctx, key)
				for range 3 {
					c.takeAt(t, "k", 1, true, now)
				}
				c.takeAt(t, "k", 1, true, now+61_000_000) // the others are dropped by a log
				at := now + 61_000_001*int64(i%2+1)
				c.runAt(t, gone, c.evalArgs(core.Ask{Key: "k", Cost: cost}), at)
				whole("a request", at)
			}
			c.takeAt(t, "k", 7, true, now+61_000_000)
			refund := core.Refund{Key: "k", Cost: 7, Units: 3, At: time.UnixMicro(now + 61_000_000)}
			c.runAt(t, back, c.rule.ReturnArgs(back, refund), now+61_000_000)
			whole("a return", now+61_000_000)
		}
	})
}

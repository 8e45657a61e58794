//go:build !race && !short

package script_test

import (
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// big48 is the last 48 bits of n.
func big48(n int64) string {
	return string([]byte{byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// counterValue is a counter as it is stored.
func counterValue(start time.Time, previous, current int64) string {
	return big48(previous) + big48(current) + big48(start.UnixMicro())
}

// bucketValue is a bucket as it is stored.
func bucketValue(at time.Time, units, part, rate int64) string {
	return big48(units) + big48(part) + big48(rate) + big48(at.UnixMicro())
}

// coarseValue is a coarse log of an hour as it is stored, with totals of 3 bytes.
func coarseValue(newest time.Time, totals ...int64) string {
	value := "\x03" + big48(newest.Add(time.Minute).UnixMicro()-1)
	for _, total := range totals {
		value += big48(total)[3:]
	}
	return value
}

// logEntry is an entry of cost 1.
func logEntry(stamp time.Time, dropped, total int64) string {
	return big48(stamp.UnixMicro()) + big48(dropped<<20 | total)[3:]
}

// bytesOf returns the bytes of an example, which must stand in the file of an algorithm.
func bytesOf(t *testing.T, algorithm, example string) string {
	t.Helper()
	source, err := os.ReadFile(algorithm + ".go")
	if err != nil || !strings.Contains(string(source), "//\t"+example+"\n") {
		t.Errorf("the example %s is not in %s.go: %v", example, algorithm, err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(example, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// reply returns what a clocked script of c replies to a request of cost 1.
func (c *ledger) reply(t *testing.T, rdb *redis.Client, now int64) string {
	t.Helper()
	at := c.at(t, now)
	args := at.rule.Call(&core.Ask{Key: "k", Cost: 1})[2:] // without EVALSHA and the script's hash
	text, err := rdb.Do(ctx, append([]any{"eval", at.rule.Script.Source}, args...)...).Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFormats holds the script, and what reads its replies, to the examples in the files of the algorithms.
func TestFormats(t *testing.T) {
	t.Run("log", func(t *testing.T) { servers(t, testLogFormat) })
	t.Run("counter", func(t *testing.T) { servers(t, testCounterFormat) })
	t.Run("coarse", func(t *testing.T) { servers(t, testCoarseFormat) })
	t.Run("bucket", func(t *testing.T) { servers(t, testBucketFormat) })
}

func testLogFormat(t *testing.T, rdb *redis.Client) {
	const now = 1_790_000_000_000_005
	examples := []struct {
		hex         string
		stamp, cost int64
	}{
		{"5bfeda25e005 000001", now, 1},
		{"5bfeda352245 00012d 00012c", now + 1_000_000, 300},
		{"5bfeddc10825 10012e", now + 60_500_000, 1},
	}
	c := bind(t, rdb, core.PerMinute(1000))
	var want []string
	for _, e := range examples {
		want = append(want, bytesOf(t, "log", e.hex))
		c.takeAt(t, "k", e.cost, true, e.stamp)
	}
	if got := rdb.LRange(ctx, c.rule.Keys(nil, "k")[0].(string), 0, -1).Val(); !slices.Equal(got, want) {
		t.Errorf("the script wrote %x, want %x", got, want)
	}
	reply := bytesOf(t, "log", "31373930303030303630 20 363030303035 41 4d "+
		"53 5bfeddc10825 10012e 4c 5bfeda352245 00012d 00012c 2d")
	if got := c.reply(t, rdb, now+60_600_000); got != reply {
		t.Errorf("the script replied %x, want %x", got, reply)
	}
	d, err := c.readAlone(reply, &core.Ask{Cost: 1})
	if err != nil || d.Remaining != 698 || d.ResetAfter != 400*time.Millisecond || d.At.UnixMicro() != now+60_600_000 {
		t.Errorf("the reply reads as %+v, %v", d, err)
	}
}

func testCounterFormat(t *testing.T, rdb *redis.Client) {
	const start = 1_790_000_040_000_000
	c := bind(t, rdb, core.PerMinute(10_000_000).Using(core.SlidingCounter))
	key := c.rule.Keys(nil, "k")[0].(string)
	c.takeAt(t, "k", 80, true, start-1)
	c.takeAt(t, "k", 30, true, start+30_000_000)
	value := bytesOf(t, "counter", "000000000050 00000000001e 5bfedc883a00")
	if got := rdb.Get(ctx, key).Val(); got != value {
		t.Errorf("the script wrote %x, want %x", got, value)
	}
	reply := bytesOf(t, "counter", "31373930303030303731 20 30 41 000000000050 00000000001e 5bfedc883a00")
	if got := c.reply(t, rdb, start+31_000_000); got != reply {
		t.Errorf("the script replied %x, want %x", got, reply)
	}
	d, err := c.readAlone(reply, &core.Ask{Cost: 1})
	if err != nil || d.Remaining != 10_000_000-31-80*29/60 || d.ResetAfter != 29*time.Second {
		t.Errorf("the reply reads as %+v, %v", d, err)
	}
}

func testCoarseFormat(t *testing.T, rdb *redis.Client) {
	const begin = 1_790_000_040_000_000
	c := bind(t, rdb, core.PerMinute(1000).Using(core.CoarseLog))
	key := c.rule.Keys(nil, "k")[0].(string)
	c.takeAt(t, "k", 300, true, begin)
	c.takeAt(t, "k", 5, true, begin+2_500_000)
	want := bytesOf(t, "coarse", "03 5bfedcb600bf 000000 00012c 00012c 000131")
	if got := rdb.Get(ctx, key).Val(); got != want {
		t.Errorf("the script wrote %x, want %x", got, want)
	}
	d := c.takeAt(t, "k", 999, true, begin+2_500_000)
	if d.Allowed || d.Remaining != 695 || d.ResetAfter != 58_499_999*time.Microsecond ||
		d.RetryAfter != 60_499_999*time.Microsecond {
		t.Errorf("the reply reads as %+v", d)
	}
}

func testBucketFormat(t *testing.T, rdb *redis.Client) {
	const start = 1_790_000_000_000_000
	c := bind(t, rdb, core.PerMinute(100).Using(core.Bucket))
	c.takeAt(t, "k", 3, true, start)
	c.takeAt(t, "k", 1, true, start+1_000_000)
	value := bytesOf(t, "bucket", "000000000002 000001312d00 000000000064 5bfeda352240")
	if got := rdb.Get(ctx, c.rule.Keys(nil, "k")[0].(string)).Val(); got != value {
		t.Errorf("the script wrote %x, want %x", got, value)
	}
	reply := bytesOf(t, "bucket",
		"31373930303030303032 20 30 41 000000000002 000001312d00 000000000064 5bfeda352240")
	if got := c.reply(t, rdb, start+2_000_000); got != reply {
		t.Errorf("the script replied %x, want %x", got, reply)
	}
	d, err := c.readAlone(reply, &core.Ask{Cost: 1})
	if err != nil || d.Remaining != 98 || d.ResetAfter != time.Second {
		t.Errorf("the reply reads as %+v, %v", d, err)
	}
}

// TestCoarseDropped: what has left a coarse log does not count again after the clock has stepped back, also where the
// newest slot is written in place.
func TestCoarseDropped(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const slot, begin = int64(1_000_000), int64(1_790_000_040_000_000)
		limit := core.PerMinute(1000).Using(core.CoarseLog)
		limit.Window -= 30 * time.Microsecond // so that slots leave before the newest ends
		c := bind(t, rdb, limit)
		begun := begin - begin%slot
		c.takeAt(t, "k", 300, true, begun)
		leaves := begun + slot - 1 + limit.Window.Microseconds()
		c.takeAt(t, "k", 5, true, leaves-1)
		c.takeAt(t, "k", 7, true, leaves) // in the same slot as before
		if d := c.takeAt(t, "k", 0, false, leaves-1); d.Remaining != 988 {
			t.Errorf("after a step back %d remain, want 988", d.Remaining)
		}
	})
}

// TestCoarseReturned: what a Return leaves counts by the clock, also where all of it has left the window by then and
// the clock steps back.
func TestCoarseReturned(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const begin = int64(1_790_000_040_000_000)
		c := bind(t, rdb, core.PerMinute(1000).Using(core.CoarseLog))
		c.takeAt(t, "k", 300, true, begin)
		leaves := begin + 61_000_000
		d := c.takeAt(t, "k", 5, true, leaves-1_000_001)
		if n := c.returnAt(t, core.Refund{Key: "k", Cost: 5, Units: 5, At: d.At, Source: d.Source}, leaves); n != 5 {
			t.Errorf("%d units were returned, want 5", n)
		}
		for now, want := range map[int64]int64{leaves: 1000, leaves - 1_000_001: 700} {
			if d := c.takeAt(t, "k", 0, false, now); d.Remaining != want {
				t.Errorf("%d us after the units have left %d remain, want %d", now-leaves, d.Remaining, want)
			}
		}
	})
}

// TestAlgorithms: each algorithm has keys, a script and a format of its own, and counts in Redis.
func TestAlgorithms(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	letters, scripts, kinds := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range core.Algorithms() {
		limit := core.PerHour(2).Using(a)
		c := bind(t, rdb, limit)
		_, suffix, _ := strings.Cut(c.rule.Keys(nil, "k")[0].(string), "}")
		letters[suffix[:2]] = true
		scripts[c.rule.Script.Source] = true
		now := int64(1_790_000_000_000_000)
		for i, allowed := range []bool{true, true, false} {
			want := core.Decision{Allowed: allowed, Remaining: max(0, 1-int64(i))}
			if d := c.takeAt(t, "k", 1, true, now); d.Allowed != want.Allowed || d.Remaining != want.Remaining {
				t.Errorf("%v, request %d: %+v, want %+v", a, i, d, want)
			}
		}
		kinds[dump(t, rdb, c, "k")] = true
		now += 2 * time.Hour.Microseconds()
		if d := c.takeAt(t, "k", 2, true, now); !d.Allowed {
			t.Errorf("%v, two hours later: %+v", a, d)
		}
	}
	if n := len(core.Algorithms()); n < 2 || len(letters) != n || len(scripts) != n || len(kinds) != n {
		t.Errorf("%d algorithms have the keys %v, %d scripts and %d formats", n, letters, len(scripts), len(kinds))
	}
}

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
func bucketValue(at time.Time, owed, part, free int64) string {
	return string([]byte{byte(owed >> 48)}) + big48(owed) + big48(part)[1:] + big48(free) + big48(at.UnixMicro())
}

// logEntry is an entry of cost 1.
func logEntry(stamp time.Time, dropped, total int64) string {
	return big48(stamp.UnixMicro()) + big48(dropped<<20 | total)[3:]
}

// put runs a command on a key.
func put(rdb *redis.Client, key string, command ...any) {
	rdb.Do(ctx, slices.Insert(slices.Clone(command), 1, any(key))...)
}

// putFull has Redis hold what is at the limit of two requests a day, two days ahead of the clock.
func putFull(rdb *redis.Client, key string, a core.Algorithm) {
	later := time.Now().Add(48 * time.Hour).Truncate(24 * time.Hour)
	put(rdb, key, map[core.Algorithm][]any{
		core.SlidingLog:     {"rpush", logEntry(later, 0, 1), logEntry(later, 0, 2)},
		core.SlidingCounter: {"set", counterValue(later, 0, 2)},
		core.CoarseLog:      {"set", "\x03" + big48(later.UnixMicro()-1) + "\x00\x00\x00\x00\x00\x02"},
		core.Bucket:         {"set", bucketValue(later, 24*time.Hour.Microseconds(), 0, 0)},
	}[a]...)
}

// bytesOf returns the bytes of an example, which must stand in the file of an algorithm.
func bytesOf(t *testing.T, algorithm core.Algorithm, example string) string {
	t.Helper()
	source, err := os.ReadFile(algorithm.String() + ".go")
	if err != nil || !strings.Contains(string(source), "//\t"+example+"\n") {
		t.Errorf("the example %s is not in %v.go: %v", example, algorithm, err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(example, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFormats holds the script, and what reads its replies, to the examples in the files of the algorithms.
func TestFormats(t *testing.T) {
	const second, now, minute = 1_000_000, int64(1_790_000_000_000_000), int64(1_790_000_040_000_000)
	type taken struct{ at, cost int64 }
	examples := []struct {
		limit            core.Limit
		taken            []taken
		values           []string
		asked            int64  // when a request comes that is not counted
		reply            string // to it
		remaining, reset int64
	}{{
		core.PerMinute(1000), []taken{{now + 5, 1}, {now + 5 + second, 300}, {now + 5 + 60.5*second, 1}},
		[]string{"5bfeda25e005 000001", "5bfeda352245 00012d 00012c", "5bfeddc10825 10012e"}, now + 5 + 60.6*second,
		"31373930303030303630 20 363030303035 41 4d 53 5bfeddc10825 10012e 4c 5bfeda352245 00012d 00012c 2d",
		698, 400_000,
	}, {
		core.PerMinute(10_000_000).Using(core.SlidingCounter), []taken{{minute - 1, 80}, {minute + 30*second, 30}},
		[]string{"000000000050 00000000001e 5bfedc883a00"}, minute + 31*second,
		"31373930303030303731 20 30 41 000000000050 00000000001e 5bfedc883a00", 10_000_000 - 31 - 80*29/60, 29 * second,
	}, {
		core.PerMinute(1000).Using(core.CoarseLog), []taken{{minute, 300}, {minute + 2.5*second, 5}},
		[]string{"03 5bfedcb600bf 000000 00012c 00012c 000131"}, minute + 2.5*second, "", 694, 58_499_999,
	}, {
		core.PerMinute(7).Using(core.Bucket), []taken{{now, 3}, {now + second, 1}},
		[]string{"00000001fbe652 4924924924 0000000f4240 5bfeda352240"}, now + 2*second,
		"31373930303030303032 20 30 41 00000001fbe652 4924924924 0000000f4240 5bfeda352240", 2, 40_857_143,
	}}
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, e := range examples {
			a, c, ask := e.limit.Algorithm, bind(t, rdb, e.limit), core.Ask{Key: "k", Cost: 1}
			for _, r := range e.taken {
				c.takeAt(t, "k", r.cost, true, r.at)
			}
			var values []string
			for _, value := range e.values {
				values = append(values, bytesOf(t, a, value))
			}
			wrote := []string{rdb.Get(ctx, c.key("k")).Val()}
			if a == core.SlidingLog {
				wrote = rdb.LRange(ctx, c.key("k"), 0, -1).Val()
			}
			if !slices.Equal(wrote, values) {
				t.Errorf("%v: the script wrote %x, want %x", a, wrote, values)
			}
			got := c.runAt(t, c.rule.Script, c.evalArgs(ask), e.asked)
			if e.reply != "" && got != bytesOf(t, a, e.reply) {
				t.Errorf("%v: the script replied %x, want %s", a, got, e.reply)
			}
			d, err := c.rule.ReadAlone(got, &ask, nil)
			if err != nil || d.Remaining != e.remaining || d.ResetAfter.Microseconds() != e.reset {
				t.Errorf("%v: the reply reads as %+v, %v", a, d, err)
			}
		}
	})
}

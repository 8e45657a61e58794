//go:build !race && !short

package script_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestReturnTTL: what is left of a log after a Return lives for as long as it counts, also where the units were of a
// request that is much older.
func TestReturnTTL(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const hour, now = int64(3600_000_000), int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.PerHour(10))
		first := c.takeAt(t, "k", 3, true, now-hour*9/10)
		c.takeAt(t, "k", 3, true, now)
		if n := c.returnAt(t, core.Refund{Key: "k", Cost: 3, At: first.At, Units: 3}, now); n != 3 {
			t.Fatalf("%d units taken back", n)
		}
		if ttl := rdb.PTTL(ctx, c.rule.Keys(nil, "k")[0].(string)).Val() - longer; ttl < time.Hour-time.Minute {
			t.Errorf("what counts for an hour is gone after %v", ttl)
		}
	})
}

// TestReturnOfNothing: where nothing is counted, the units of a request count no more.
func TestReturnOfNothing(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, a := range core.Algorithms() {
			c := bind(t, rdb, core.PerHour(10).Using(a))
			back := core.Refund{Key: a.String(), Cost: 2, At: time.UnixMicro(1_790_000_000_000_000), Units: 2}
			if n := c.returnAt(t, back, 1_790_000_000_000_000); n != 2 {
				t.Errorf("%v: %d of 2 units count no more where there is no key", a, n)
			}
		}
	})
}

// TestReturnAtTheEnd: units of a request count no more at the very moment at which it leaves, whatever is there still.
func TestReturnAtTheEnd(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const minute, begun = int64(60_000_000), int64(1_790_000_040_000_000)
		for a, leaves := range map[core.Algorithm]int64{core.SlidingLog: minute, core.CoarseLog: minute + 999_999} {
			c := bind(t, rdb, core.PerMinute(1000).Using(a))
			d := c.takeAt(t, "k", 5, true, begun)
			c.takeAt(t, "k", 7, true, begun+minute/2)
			for i, want := range []int64{9, 5} {
				after := leaves - int64(i)
				if got := c.returnAt(t, core.Refund{Key: "k", Cost: 9, At: d.At, Units: 9}, begun+after); got != want {
					t.Errorf("%v, %d µs later: %d of 9 units count no more, want %d", a, after, got, want)
				}
			}
		}
	})
}

// TestReturnOfCounter: units of any request are given back to a counter, at any time, as by the arithmetic.
func TestReturnOfCounter(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const w, begun = int64(1000), int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.Per(10, time.Duration(w)*time.Microsecond).Using(core.SlidingCounter))
		key, start := c.rule.Keys(nil, "k")[0].(string), time.UnixMicro(begun)
		times := []int64{-2 * w, -w - 1, -w, -1, 0, w - 1, w, w + 1, 2*w - 1, 2 * w, 3*w - 1, 3 * w}
		for _, counts := range [][2]int64{{0, 0}, {0, 3}, {1, 0}, {1 << 40, 0}, {0, 1 << 40}, {5, 1}} {
			for i, at := range times {
				for j, now := range times {
					if i%3 == 0 && j%3 == 1 { // so that the test is quick
						continue
					}
					rdb.Set(ctx, key, counterValue(start, counts[0], counts[1]), 0)
					after, want := window.Counter{Index: begun / w, Prev: counts[0], Cur: counts[1]}, int64(2)
					if !after.Over(begun+now, w) {
						after, want = after.Return(w, begun+at, begun+now, 2)
					}
					got := c.returnAt(t, core.Refund{Key: "k", Cost: 2, At: time.UnixMicro(begun + at), Units: 2}, begun+now)
					value := rdb.Get(ctx, key).Val()
					if got != want || value != counterValue(start, after.Prev, after.Cur) {
						t.Errorf("%v at %d, of a request at %d: %d units and %x, want %d and %+v",
							counts, now, at, got, value, want, after)
					}
				}
			}
		}
	})
}

// TestReturnOnFullServer: a server that takes no more data takes units back.
func TestReturnOnFullServer(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, a := range core.Algorithms() {
		rdb.ConfigSet(ctx, "maxmemory", "0")
		l := core.Must(core.New(core.Config{Store: counts{rdb}, Timeout: 20 * time.Second, OnStoreError: core.FailClosed,
			Limits: []core.Limit{core.PerHour(10).Using(a)}}))
		r := l.Reserve(ctx, core.Request{Key: "k", Cost: 4})
		l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
		rdb.ConfigSet(ctx, "maxmemory", "1")
		if n, err := r.Return(ctx, 3); n != 3 || err != nil {
			t.Errorf("%v: %d taken back, %v", a, n, err)
		}
		if d := l.AllowN(ctx, "k", 0); d.Err != nil || d.Remaining != 8 {
			t.Errorf("%v: %+v", a, d)
		}
	}
}

// TestReturnDepth: the units of a request with more than window.ReturnDepth newer ones stay, and of a request of many
// entries those behind as many of its own.
func TestReturnDepth(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const now = int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.PerHour(100_000))
		c.takeAt(t, "k", 1, true, now)
		c.takeAt(t, "k", 1, true, now+1)
		key := c.rule.Keys(nil, "k")[0].(string)
		list, entries := rdb.LRange(ctx, key, 0, -1).Val(), make([]any, 0, window.ReturnDepth)
		for i := range window.ReturnDepth - 1 {
			entry := []byte(list[1])
			low := binary.BigEndian.Uint16(entry[4:]) + uint16(i) + 1
			binary.BigEndian.PutUint16(entry[4:], low)
			binary.BigEndian.PutUint16(entry[7:], uint16(i)+3)
			entries = append(entries, string(entry))
		}
		rdb.RPush(ctx, key, entries...)
		c.takeAt(t, "k", 1, true, now+window.ReturnDepth+1)
		for want := range int64(2) { // the oldest entry, and the next
			back := core.Refund{Key: "k", Cost: 1, At: time.UnixMicro(now + want), Units: 1}
			if n := c.returnAt(t, back, now+2000); n != want {
				t.Errorf("%d taken back of an entry with %d newer ones, want %d", n, window.ReturnDepth+1-want, want)
			}
		}
		one := logEntry(time.UnixMicro(now), 0, 1)
		entries = nil
		for i := range window.ReturnDepth + 10 {
			entries = append(entries, one[:7]+string([]byte{byte((i + 1) >> 8), byte(i + 1)}))
		}
		rdb.RPush(ctx, c.rule.Keys(nil, "many")[0].(string), entries...)
		back := core.Refund{Key: "many", Cost: 5000, At: time.UnixMicro(now), Units: 5000}
		if n := c.returnAt(t, back, now); n != window.ReturnDepth+1 {
			t.Errorf("%d taken back of many entries, want %d", n, window.ReturnDepth+1)
		}
		entries = nil
		for i := range 1300 { // 700 of a request, and 600 newer ones
			entries = append(entries, logEntry(time.UnixMicro(now+int64(i/700)), 0, int64(i+1)))
		}
		rdb.RPush(ctx, c.rule.Keys(nil, "both")[0].(string), entries...)
		back = core.Refund{Key: "both", Cost: 700, At: time.UnixMicro(now), Units: 700}
		if n := c.returnAt(t, back, now+1); n != 700 {
			t.Errorf("%d taken back of 700 entries with 600 newer ones", n)
		}
	})
}

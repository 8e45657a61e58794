package redisstore

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
		if ttl := rdb.PTTL(ctx, c.keys(nil, "k")[0].(string)).Val() - longer; ttl < time.Hour-time.Minute {
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

// TestReturnOnFullServer: a server that takes no more data takes units back.
func TestReturnOnFullServer(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, a := range core.Algorithms() {
		rdb.ConfigSet(ctx, "maxmemory", "0")
		l := core.Must(core.New(core.Config{Store: New(rdb), Timeout: 20 * time.Second, OnStoreError: core.FailClosed,
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

// TestReturnDepth: the units of a request with more than window.ReturnDepth newer ones stay.
func TestReturnDepth(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const now = int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.PerHour(100_000))
		c.takeAt(t, "k", 1, true, now)
		c.takeAt(t, "k", 1, true, now+1)
		key := c.keys(nil, "k")[0].(string)
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
	})
}

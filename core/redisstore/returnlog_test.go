package redisstore

import (
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
		if n := c.returnAt(t, core.Back{Key: "k", Cost: 3, At: first.At, Units: 3}, now); n != 3 {
			t.Fatalf("%d units taken back", n)
		}
		if ttl := rdb.PTTL(ctx, c.keys(nil, "k")[0].(string)).Val() - longer; ttl < time.Hour-time.Minute {
			t.Errorf("what counts for an hour is gone after %v", ttl)
		}
	})
}

// TestReturnOfDropped: entries that are dropped, and still stand in the list, are nothing to take back, even where the
// server's clock has stepped back to when they counted; and those that count stay.
func TestReturnOfDropped(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const minute, hour, now = int64(60_000_000), int64(3600_000_000), int64(1_790_000_000_000_000)
		c := bind(t, rdb, core.PerHour(10))
		first := c.takeAt(t, "k", 1, true, now)
		second := c.takeAt(t, "k", 1, true, now+minute)
		for i := range int64(3) {
			c.takeAt(t, "k", 1, true, now+hour+i) // the first of them drops one
		}
		if n := c.returnAt(t, core.Back{Key: "k", Cost: 1, At: first.At, Units: 1}, now+hour-5_000_000); n != 0 {
			t.Errorf("%d units taken back of an entry that is dropped", n)
		}
		if d := c.takeAt(t, "k", 0, false, now+hour+3); d.Remaining != 6 {
			t.Errorf("%+v, and four requests count", d)
		}
		for i := range int64(4) {
			back := core.Back{Key: "k", Cost: 1, At: time.UnixMicro(now + hour + i), Units: 1}
			if i == 3 {
				back.At = second.At
			}
			if n := c.returnAt(t, back, now+hour-5_000_000); n != 1 {
				t.Errorf("%d units taken back", n)
			}
		}
		if d := c.takeAt(t, "k", 0, false, now+hour-5_000_000); d.Remaining != 10 {
			t.Errorf("%+v, and all was given back", d)
		}
	})
}

// TestReturnOfNothing: where nothing is counted, the units of a request count no more.
func TestReturnOfNothing(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, a := range core.Algorithms() {
			c := bind(t, rdb, core.PerHour(10).Using(a))
			back := core.Back{Key: a.String(), Cost: 2, At: time.UnixMicro(1_790_000_000_000_000), Units: 2}
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

// TestReturnDepth: units of an entry stay where more than 1,000 are newer.
func TestReturnDepth(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l := core.Must(core.New(core.Config{Store: New(rdb), Timeout: 20 * time.Second, OnStoreError: core.FailClosed,
		Limits: []core.Limit{core.PerHour(10_000)}}))
	var first [2]*core.Reservation
	for i := range first {
		first[i] = l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
	}
	for range window.ReturnDepth {
		l.Allow(ctx, "k")
	}
	for i, r := range first {
		if n, err := r.Return(ctx, 1); n != int64(i) || err != nil {
			t.Errorf("%d of request %d given back, %v", n, i, err)
		}
	}
}

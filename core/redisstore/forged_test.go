package redisstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// forgedLog returns entries of the sizes of ours that another program may have written: times around now, in any
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
			rdb.RPush(ctx, c.keys(nil, key)[0].(string), forgedLog(rng, time.Now(), limit.Window)...)
			ask := core.Ask{Key: key, Cost: rng.Int64N(4), Peek: rng.IntN(3) == 0}
			_, err := c.Take(ctx, ask)
			switch {
			case err == nil:
				continue
			case !errors.Is(err, ErrForeign):
				t.Fatalf("list %d: %v, want a decision or %v", i, err, ErrForeign)
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

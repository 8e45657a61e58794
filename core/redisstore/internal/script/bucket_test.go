//go:build !race && !short

package script_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// border returns a number from 1 to most, mostly at an end or beside a power of two.
func border(rng *rand.Rand, most int64) int64 {
	switch rng.IntN(4) {
	case 0:
		return most - rng.Int64N(min(3, most))
	case 1:
		return 1 + rng.Int64N(min(3, most))
	case 2:
		return min(most, max(1, int64(1)<<rng.IntN(50)+rng.Int64N(3)-1))
	}
	return 1 + rng.Int64N(most)
}

// TestBucketBorders: what the script writes of any bucket, at any time, by any limit and window, is to the last part of
// a unit what package window reckons, which a test there holds to rational numbers. And it admits as many.
func TestBucketBorders(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for seed := range uint64(500) {
			rng := rand.New(rand.NewPCG(seed, 46))
			w := max(1000, border(rng, core.MaxWindow.Microseconds()))
			l := window.Limit{N: border(rng, core.MaxCounterRequests), W: w, Algorithm: core.Bucket}
			b := window.Bucket{At: 1_790_000_000_000_000, Rate: border(rng, core.MaxCounterRequests)}
			b.Units, b.Part = border(rng, min(core.MaxCounterRequests, 100*b.Rate-1)), border(rng, w)-1
			full := b.Decide(window.Limit{N: b.Rate, W: w, Boundless: true}, b.At, b.At, 0).ResetAfter
			now := b.At + border(rng, min(full+1, 1<<46)) // stamps are told apart to 2^47
			c := bind(t, rdb, core.Per(l.N, time.Duration(w)*time.Microsecond).Using(core.Bucket))
			key := fmt.Sprint(seed)
			name := c.rule.Keys(nil, key)[0].(string)
			rdb.Set(ctx, name, bucketValue(time.UnixMicro(b.At), b.Units, b.Part, b.Rate), 0)
			left := b.On(now, w)
			if room := l.N - left.Used(); room > 0 {
				if d := c.takeAt(t, key, room, false, now); !d.Allowed {
					t.Errorf("seed %d: %+v by %+v, %d later: %d are refused", seed, b, l, now-b.At, room)
				}
				if d := c.takeAt(t, key, room+1, false, now); d.Allowed {
					t.Errorf("seed %d: %+v by %+v, %d later: %d are admitted", seed, b, l, now-b.At, room+1)
				}
			}
			want := left.Take(l, 1)
			c.chargeAt(t, key, 1, now)
			got := rdb.Get(ctx, name).Val()
			if value := bucketValue(time.UnixMicro(now), want.Units, want.Part, want.Rate); got != value {
				t.Errorf("seed %d: %+v by %+v, %d later: wrote %x, want %x", seed, b, l, now-b.At, got, value)
			}
		}
		c := bind(t, rdb, core.PerHour(1000).Using(core.Bucket))
		for used := range int64(2) { // the short way of writing a bucket ends where what is used fills a byte
			if d := c.takeAt(t, "byte", 255-254*used, true, 1_790_000_000_000_000); d.Remaining != 745-used {
				t.Errorf("where %d are used: %+v", 255+used, d)
			}
		}
	})
}

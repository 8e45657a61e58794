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

// TestBucketBorders: what the scripts write of any bucket, at any time, by any limit and window, is to the last part of
// a microsecond what package window reckons, which a test there holds to rational numbers: for requests, for charges,
// and for what is given back. And they admit as many.
func TestBucketBorders(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for seed := range uint64(600) {
			rng := rand.New(rand.NewPCG(seed, 46))
			w := max(1000, border(rng, core.MaxWindow.Microseconds()))
			l := window.Limit{N: border(rng, core.MaxCounterRequests), W: w, Algorithm: core.Bucket}
			b := window.Bucket{At: 1_790_000_000_000_000, Owed: border(rng, 1<<52), Elapsed: border(rng, 1<<48-1)}
			if rng.IntN(3) > 0 {
				b.Owed = border(rng, w)
			}
			if b.Owed < 1<<52 {
				b.Fraction = border(rng, 1<<40) - 1
			}
			now := b.At + border(rng, min(b.Owed+2, 1<<46)) // stamps are told apart to 2^47
			c := bind(t, rdb, core.Per(l.N, time.Duration(w)*time.Microsecond).Using(core.Bucket).Named("b"))
			key := fmt.Sprint(seed)
			name := c.rule.Keys(nil, key)[0].(string)
			value := func(b window.Bucket) string {
				if b.Owed+b.Fraction == 0 {
					return ""
				}
				return bucketValue(time.UnixMicro(b.At), b.Owed, b.Fraction, b.Elapsed)
			}
			holds := func(what string, want window.Bucket) {
				t.Helper()
				if got := rdb.Get(ctx, name).Val(); got != value(want) {
					t.Errorf("seed %d: %+v by %+v at %d: %s: %x, want %x", seed, b, l, now, what, got, value(want))
				}
			}
			rdb.Set(ctx, name, value(b), 0)
			left := b.AsOf(now)
			if room := l.N - left.Used(l); room > 0 {
				if d := c.takeAt(t, key, room, false, now); !d.Allowed {
					t.Errorf("seed %d: %+v by %+v, %d later: %d are refused", seed, b, l, now-b.At, room)
				}
				if d := c.takeAt(t, key, room+1, false, now); d.Allowed {
					t.Errorf("seed %d: %+v by %+v, %d later: %d are admitted", seed, b, l, now-b.At, room+1)
				}
			}
			cost := border(rng, core.MaxCounterRequests)
			c.chargeAt(t, key, cost, now)
			want := left.Take(l, cost)
			holds("a charge", want)
			cost = border(rng, min(cost, l.N))
			back := core.Refund{Key: key, Cost: cost, Units: border(rng, cost)}
			back.At = time.UnixMicro(now - border(rng, w))
			if owed := border(rng, 2*w); rng.IntN(2) == 0 { // no charge that takes centuries
				want = window.Bucket{At: now, Owed: owed, Fraction: want.Fraction, Elapsed: want.Elapsed}
				rdb.Set(ctx, name, value(want), 0)
			}
			got := c.returnAt(t, back, now)
			after, units := want.Return(l, back.At.UnixMicro(), cost, back.Units)
			if got != units {
				t.Errorf("seed %d: %+v of %+v by %+v: %d count no more, want %d", seed, back, want, l, got, units)
			}
			holds("a return", after)
		}
	})
}

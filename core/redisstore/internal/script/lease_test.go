//go:build !race && !short

package script_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/internal/lease"
)

// TestLeaseScript compares the script of leases with the arithmetic, and both
// with requests that are not leases in between.
func TestLeaseScript(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		rewound := 0
		for seed := range uint64(25) {
			rng := rand.New(rand.NewPCG(seed, 26))
			window := func(most int64) time.Duration { return time.Duration(1000+rng.Int64N(most)) * time.Microsecond }
			limits := []core.Limit{core.Per(1+rng.Int64N(30), window(100_000)).Named("a")}
			if rng.IntN(2) == 0 {
				limits = append(limits, core.Per(1+rng.Int64N(60), window(200_000)).Named("b"))
			}
			for i := range limits {
				limits[i] = limits[i].Using(core.CoarseLog * core.Algorithm(rng.IntN(2)))
			}
			terms, _ := lease.Terms{Lifetime: time.Duration(1+rng.Int64N(20_000)) * time.Microsecond}.For(limits)
			lifetime := terms.Lifetime
			c, s, client := bind(t, rdb, limits...), fakeserver.New(0, limits...), fmt.Sprint("client ", seed)
			leased := ahead(c, lifetime)
			now := int64(1_790_000_000_000_000) + rng.Int64N(1e12)
			for step := range 40 {
				now += rng.Int64N(limits[0].Window.Microseconds() / 3)
				if rng.IntN(10) == 0 {
					now -= rng.Int64N(2 * limits[0].Window.Microseconds())
				}
				cost, ahead, asked := rng.Int64N(8), time.Duration(0), c
				if rng.IntN(2) == 0 {
					ahead, asked = lifetime, leased
				}
				got, err := asked.at(t, now).Take(ctx, core.Ask{Key: client, Cost: cost})
				if err != nil {
					t.Fatal(err)
				}
				if want := s.Decide(now, core.Ask{Key: client, Cost: cost, Override: &core.Override{Ahead: ahead}}); got != want {
					t.Fatalf("seed %d step %d: %v, cost %d, ahead %v:\n got %+v\nwant %+v",
						seed, step, limits, cost, ahead, got, want)
				}
				for i, key := range c.rule.Keys(nil, client) {
					newest := time.Duration(max(0, s.Client.Begun(limits[i])-now)) * time.Microsecond
					if ttl := rdb.PTTL(ctx, key.(string)).Val(); got.Allowed && cost > 0 && ttl < newest+limits[i].Window {
						t.Fatalf("seed %d step %d: a TTL of %v for what is needed for %v",
							seed, step, ttl, newest+limits[i].Window)
					}
				}
			}
			rewound += s.Rewound
			rdb.FlushAll(ctx)
		}
		if rewound < 10 {
			t.Errorf("only %d times a log was too far ahead", rewound)
		}
	})
}

// TestLeaseStepBack: the longest lease that is allowed is counted at its end, even if the
// server's clock steps back a little, as in a failover.
func TestLeaseStepBack(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, limit := range []core.Limit{core.PerSecond(100), core.PerHour(100)} {
			c, client := bind(t, rdb, limit), limit.Window.String()
			terms, _ := lease.Terms{Size: 100, Lifetime: lease.MaxLifetime}.For(c.rule.Limits)
			lifetime := terms.Lifetime
			now := int64(1_790_000_000_000_000)
			if d := ahead(c, lifetime).takeAt(t, client, 10, true, now); !d.Allowed {
				t.Fatalf("%+v", d)
			}
			step := min(15*time.Second, limit.Window/40)
			d := c.takeAt(t, client, 91, true, now-step.Microseconds())
			if want := step + lifetime + limit.Window; d.Allowed || d.RetryAfter != want {
				t.Errorf("%v: %+v, want %v", limit, d, want)
			}
		}
	})
}

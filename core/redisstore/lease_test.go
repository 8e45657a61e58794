package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/internal/lease"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
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
				got, err := asked.at(t, now).askAlone(ctx, time.Time{}, client, cost, true)
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

// TestLeaseOptions: what is no lease is an error that says what is.
func TestLeaseOptions(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, wrong := range []Option{
		WithLease(1, time.Second), WithLease(-1, time.Second), WithLease(core.MaxLogRequests+1, time.Second),
		WithLease(100, 0), WithLease(100, time.Hour),
	} {
		_, err := core.New(core.Config{Store: New(rdb, wrong), Limits: []core.Limit{core.PerMinute(100)}})
		if err == nil || !strings.Contains(err.Error(), "such as") {
			t.Errorf("%v", err)
		}
	}
}

// TestLeaseReset: this process believes a reset at once, for every rule that
// may be on the same counts.
func TestLeaseReset(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	store := New(rdb, WithLease(1000, time.Minute))
	limit := core.PerHour(100_000)
	make := func() *core.Limiter {
		return core.Must(core.New(core.Config{
			Store: store, Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
		}))
	}
	l, same := make(), make()
	for range 3 {
		for i := range int64(5000) {
			if d := l.Allow(ctx, "client"); !d.Allowed || i < 3 && d.Remaining != limit.Requests-1-i {
				t.Fatalf("request %d: %+v", i, d)
			}
			same.Allow(ctx, "other")
		}
		if err := same.Reset(ctx, "client"); err != nil {
			t.Fatal(err)
		}
		if d := l.AllowN(ctx, "client", 0); d.Remaining != limit.Requests {
			t.Fatalf("after the reset: %+v", d)
		}
	}
}

// TestLeaseLoweredLimits: a charge is not taken from a lease. A request under lowered limits, of its own or of a
// limiter of WithLimits, is never admitted from units that were leased under larger ones.
func TestLeaseLoweredLimits(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	l := core.Must(core.New(core.Config{
		Store: New(rdb, WithLease(1000, time.Minute)), Limits: []core.Limit{core.PerHour(100_000)},
		OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
	}))
	leased := 0
	for i := range 5000 {
		d := l.Allow(ctx, "client")
		if !d.Allowed {
			t.Fatalf("request %d: got %+v, want an admission", i, d)
		}
		if d.Source == core.SourceLeased {
			leased++
		}
	}
	if leased == 0 {
		t.Fatal("nothing was leased")
	}
	if d := l.Charge(ctx, "client", 1); !d.Allowed || d.Source == core.SourceLeased {
		t.Errorf("a charge: got %+v, want it counted", d)
	}
	lowered := []core.Limit{core.PerHour(5000)}
	other := core.Must(l.WithLimits(lowered...))
	for name, ask := range map[string]func(context.Context) core.Decision{
		"of the request": func(ctx context.Context) core.Decision {
			return l.Decide(ctx, core.Request{Key: "client", Cost: 1, Limits: lowered})
		},
		"of WithLimits": func(ctx context.Context) core.Decision { return other.Allow(ctx, "client") },
	} {
		for range 3 {
			if d := l.Allow(ctx, "client"); d.Source != core.SourceLeased {
				t.Fatalf("got %+v, want an admission by a lease", d)
			}
			if d := ask(ctx); d.Allowed || d.Source == core.SourceLeased {
				t.Errorf("%s: got %+v, want a refusal", name, d)
			}
		}
	}
}

// TestConformanceLeased: with leases, rules that cannot be leased, and keys
// that are not busy, are as exact as without. Three subtests are run without:
// they demand the exact number or moment of rules that are leased, where a
// lease may refuse early and is counted at its end.
func TestConformanceLeased(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	storetest.Run(t, func(t *testing.T) core.Store {
		for _, exact := range []string{"/Histories", "/Concurrency", "/Extremes"} {
			if strings.HasSuffix(t.Name(), exact) {
				return New(rdb)
			}
		}
		return New(rdb, WithLease(1000, time.Minute))
	})
}

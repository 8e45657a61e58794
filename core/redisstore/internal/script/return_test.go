//go:build !race && !short

package script_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

// chargeAt counts cost units, whatever the limits say, when the server's clock shows now.
func (c *ledger) chargeAt(t *testing.T, key string, cost, now int64) core.Decision {
	t.Helper()
	at, ask := c.at(t, now), core.Ask{Key: key, Cost: cost, Override: &core.Override{Charge: true}}
	reply, err := at.send(ctx, at.rule.Call(&ask), at.rule.Script.Source)
	if err != nil {
		t.Fatal(err)
	}
	d, err := at.readAlone(reply, &ask)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// returnCommandAt is returnCommand when the server's clock shows now.
func (c *ledger) returnCommandAt(t *testing.T, back core.Refund, now int64) []any {
	t.Helper()
	seconds, micros := strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10)
	args := c.rule.ReturnCall(clocked(t, script.Return().Source), back)
	return slices.Insert(args, 3+len(c.rule.Limits), any(seconds), any(micros))
}

// returnAt takes back what a request has counted, when the server's clock shows now.
func (c *ledger) returnAt(t *testing.T, back core.Refund, now int64) int64 {
	t.Helper()
	reply, err := c.send(
		ctx, c.returnCommandAt(t, back, now), clocked(t, script.Return().Source).Source)
	if err != nil {
		t.Fatal(err)
	}
	units, err := strconv.ParseInt(reply, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// leaving is how many steps a history still stays at a moment at which a unit leaves.
type leaving int

// move moves the clock by a few microseconds at such a moment, or to one, which comes after reset. It reports whether
// it has moved the clock.
func (l *leaving) move(rng *rand.Rand, now *int64, reset time.Duration) bool {
	switch {
	case *l > 0:
		*l--
		*now += rng.Int64N(5) - 2
	case reset > 0 && rng.IntN(12) == 0:
		*l = 5
		*now += reset.Microseconds() - 1
	default:
		return false
	}
	return true
}

// TestScriptVerbsAgainstModel runs random histories with charges and with units that are
// given back through the scripts and the model, and compares every answer.
func TestScriptVerbsAgainstModel(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		taken := 0
		for seed := range histories(150) {
			rng := rand.New(rand.NewPCG(seed, 21))
			limits := randomLimits(rng)
			window := limits[rng.IntN(len(limits))].Window.Microseconds()
			client, key := model.Client{}, fmt.Sprint("client ", seed)
			now := int64(1_790_000_000_000_000) + rng.Int64N(1e12)
			c, lives := bind(t, rdb, limits...), newLifetimes(limits)
			var backs []core.Refund
			var near leaving
			var got, want core.Decision
			for step := range 80 {
				if !near.move(rng, &now, got.ResetAfter) {
					switch now += rng.Int64N(window / 6); rng.IntN(20) {
					case 0:
						now += rng.Int64N(2 * window)
					case 1:
						now -= rng.Int64N(window / 6)
					}
				}
				returns, cost := rng.IntN(3) == 0 && len(backs) > 0, rng.Int64N(4)
				lives.before(&client, now, !returns && cost > 0)
				if returns {
					i := rng.IntN(len(backs))
					back := backs[i]
					back.Units = 1 + rng.Int64N(back.Cost+1) // which may be more than the request has counted
					before := dump(t, rdb, c, key)
					got, want := c.returnAt(t, back, now), client.Return(limits, time.UnixMicro(now), back)
					if got != want {
						t.Fatalf("seed %d step %d: %v, %+v: %d units taken back, want %d\nbefore %s",
							seed, step, limits, back, got, want, before)
					}
					if err := lives.check(rdb, c.rule.Keys(nil, key), &client, now); err != nil {
						t.Fatalf("seed %d step %d: after a Return %v", seed, step, err)
					}
					if got > 0 {
						taken++
						backs = append(backs[:i], backs[i+1:]...)
					}
					continue
				}
				at, before := time.UnixMicro(now), dump(t, rdb, c, key)
				if rng.IntN(5) == 0 {
					got, want = c.chargeAt(t, key, cost, now), client.Charge(limits, at, cost)
				} else {
					got, want = c.takeAt(t, key, cost, true, now), client.Decide(limits, at, cost, true)
				}
				if got != want {
					t.Fatalf("seed %d step %d: %v, cost %d:\n got %+v\nwant %+v\nbefore %s",
						seed, step, limits, cost, got, want, before)
				}
				if got.Allowed && cost > 0 {
					backs = append(backs, core.Refund{Key: key, Cost: cost, At: got.At})
				}
			}
			rdb.FlushAll(ctx)
		}
		if taken < 500 {
			t.Errorf("only %d requests were taken back", taken)
		}
		t.Logf("proved: %s: %d histories, %d requests given back", t.Name(), histories(150), taken)
	})
}

// TestChargeFull: a charge beyond what a log holds makes all units count from then on, as many as any limit can tell.
func TestChargeFull(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		limits := []core.Limit{
			core.Per(core.MaxLogRequests, time.Hour).Named("a"), core.Per(core.MaxLogRequests, time.Minute).Named("b"),
			core.Per(core.MaxCounterRequests, time.Hour).Named("c").Using(core.SlidingCounter),
		}
		// What fits exactly leaves as it came.
		const exact, hour = int64(1_790_000_000_000_000), int64(3600_000_000)
		c := bind(t, rdb, limits[0])
		c.chargeAt(t, "exact", 1, exact)
		c.chargeAt(t, "exact", core.MaxLogRequests-1, exact+1)
		if d := c.takeAt(t, "exact", 0, false, exact+hour); d.Remaining != 1 {
			t.Errorf("after the oldest unit has left: %+v", d)
		}
		for _, at := range []int64{0, 1, hour / 2} { // two have left when the charge comes
			c.takeAt(t, "old", 1, true, exact+at)
		}
		c.chargeAt(t, "old", core.MaxLogRequests-1, exact+hour+1)
		if d := c.takeAt(t, "old", 0, false, exact+hour/2+hour); d.Remaining != 1 {
			t.Errorf("after the third of the old units has left: %+v", d)
		}
		for _, cost := range []int64{core.MaxLogRequests, core.MaxLogRequests + 1, 2 * core.MaxLogRequests} {
			key := fmt.Sprint(cost)
			c.chargeAt(t, key, 1, exact) // a unit stays with those of the charge
			d := c.chargeAt(t, key, cost, exact+1)
			c.returnAt(t, core.Refund{Key: key, Cost: cost, At: d.At, Units: core.MaxLogRequests}, exact+1)
			if d := c.takeAt(t, key, 0, false, exact+1); d.Remaining != core.MaxLogRequests-1 {
				t.Errorf("after a charge of %d is given back: %+v", cost, d)
			}
		}
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 22))
			c, key := bind(t, rdb, limits...), fmt.Sprint("client ", seed)
			var newest []core.Refund // of the charges
			now := int64(1_790_000_000_000_000) + rng.Int64N(1e12)
			for range 40 {
				now += rng.Int64N(200_000_000)
				cost := 1 + rng.Int64N(300_000)
				switch rng.IntN(8) {
				case 0:
					cost = core.MaxCounterRequests
				case 1:
					cost = 1
				}
				if d := c.chargeAt(t, key, cost, now); !d.Allowed {
					t.Fatalf("seed %d: a charge is refused: %+v", seed, d)
				}
				held := int64(0)
				for _, n := range newest {
					if time.UnixMicro(now).Sub(n.At) < time.Hour {
						held += n.Units
					}
				}
				if held > 0 && held+cost > core.MaxLogRequests {
					newest = []core.Refund{{Units: max(1, core.MaxLogRequests-cost), At: time.UnixMicro(now)}}
				}
				newest = append(newest, core.Refund{Units: min(cost, core.MaxLogRequests), At: time.UnixMicro(now)})
				ask := 1 + rng.Int64N(core.MaxLogRequests)
				d := c.takeAt(t, key, ask, false, now)
				counted, retry := int64(0), time.Duration(0)
				for i := len(newest) - 1; i >= 0; i-- { // those after which ask units fit, if they leave
					age := time.UnixMicro(now).Sub(newest[i].At)
					if age >= time.Hour {
						break
					}
					if counted += newest[i].Units; counted+ask > core.MaxLogRequests {
						retry = time.Hour - age
						break
					}
				}
				if retry > 0 && (d.Allowed || d.Limit.Name == "a" && d.RetryAfter != retry) || retry == 0 && !d.Allowed &&
					d.Limit.Name == "a" {
					t.Fatalf("seed %d: %d units: %+v, want them to wait for %v", seed, ask, d, retry)
				}
			}
		}
	})
}

// TestReturnAfterReset: a request from before a Reset takes back what was counted afterwards only in the same fixed
// window of a counter, the same slot of a coarse log and the same microsecond of a log, or from a bucket: as many units
// as it had.
func TestReturnAfterReset(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const noon, minute = int64(1_790_000_000_000_000) / 3_600_000_000 * 3_600_000_000, int64(60_000_000)
		for i, r := range []struct {
			algorithm   core.Algorithm
			later, want int64
		}{
			{core.SlidingLog, 0, 3}, {core.SlidingLog, 1, 0},
			{core.CoarseLog, minute - 1, 3}, {core.CoarseLog, minute, 0},
			{core.SlidingCounter, 60*minute - 1, 3},
			{core.Bucket, 0, 3}, {core.Bucket, 12 * minute, 3},
		} {
			c, key := bind(t, rdb, core.PerHour(5).Using(r.algorithm)), fmt.Sprint("reset ", i)
			back := core.Refund{Key: key, Cost: 3, Units: 3, At: c.takeAt(t, key, 3, true, noon).At}
			if err := c.Reset(ctx, key); err != nil {
				t.Fatal(err)
			}
			c.takeAt(t, key, 5, true, noon+r.later)
			if n := c.returnAt(t, back, noon+r.later); n != r.want {
				t.Errorf("%v, %d later: %d given back, want %d", r.algorithm, r.later, n, r.want)
			}
			if d := c.takeAt(t, key, 0, false, noon+r.later); d.Remaining != r.want {
				t.Errorf("%v, %d later: %d remain, want %d", r.algorithm, r.later, d.Remaining, r.want)
			}
		}
	})
}

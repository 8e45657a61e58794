package redisstore

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

//go:embed testdata/reference.lua
var referenceSource string

var reference = redis.NewScript(referenceSource)

// sortedSet is the count of a client under one limit, in a sorted set.
type sortedSet struct {
	*testing.T
	rdb    *redis.Client
	client string
	limit  core.Limit
}

// run calls the script.
func (s *sortedSet) run(units int64, mode string, fourth, now int64) any {
	s.Helper()
	keys := []string{s.client, s.client + " sequence"}
	slot, w := int64(1), s.limit.Window.Microseconds()
	if s.limit.Algorithm == core.CoarseLog {
		slot = (w + 59) / 60
	}
	reply, err := reference.Run(ctx, s.rdb, keys, units, mode, w, fourth, now, slot).Result()
	if err != nil {
		s.Fatal(err)
	}
	return reply
}

// decide answers a request; mode is 0 for a peek, 1, or ! for a charge.
func (s *sortedSet) decide(cost int64, mode string, now int64) core.Decision {
	s.Helper()
	reply := s.run(cost, mode, s.limit.Requests, now).([]any)
	number := func(i int) int64 {
		n, err := strconv.ParseInt(reply[i].(string), 10, 64)
		if err != nil {
			s.Fatal(err)
		}
		return n
	}
	d := core.Decision{
		Allowed: reply[0] == int64(1), Source: core.SourceCounted, Limit: s.limit.Named(s.limit.Window.String()),
		Remaining: number(1), ResetAfter: time.Duration(number(2)) * time.Microsecond,
		RetryAfter: time.Duration(number(3)) * time.Microsecond, At: time.UnixMicro(now),
	}
	if d.RetryAfter < 0 {
		d.RetryAfter = core.Never
	}
	if d.Allowed && mode != "0" && cost > 0 {
		d.At = time.UnixMicro(number(4))
	}
	return d
}

// giveBack takes units of a request back.
func (s *sortedSet) giveBack(back core.Refund, now int64) int64 {
	s.Helper()
	return s.run(back.Units, "return", back.At.UnixMicro(), now).(int64)
}

// TestScriptAgainstSortedSet compares both logs with the sorted set, call by call, on the
// same server: requests and peeks, charges, and units that are given back.
func TestScriptAgainstSortedSet(t *testing.T) {
	servers(t, againstSortedSet)
}

func againstSortedSet(t *testing.T, rdb *redis.Client) {
	returned := 0
	for seed := range histories(150) {
		rng := rand.New(rand.NewPCG(seed, 12))
		limit := core.Per(1+rng.Int64N(20), time.Duration(1000+rng.Int64N(5000))*time.Microsecond)
		if seed%2 == 0 {
			limit = limit.Using(core.CoarseLog)
		}
		window := limit.Window.Microseconds()
		now := int64(1_790_000_000_000_000)
		set := sortedSet{t, rdb, fmt.Sprint("client ", seed), limit}
		c := bind(t, rdb, limit)
		var backs []core.Refund
		var near leaving
		var got core.Decision
		for step := range 100 {
			dice := rng.IntN(30)
			if near.move(rng, &now, got.ResetAfter) {
				dice = 30
			} else {
				now += rng.Int64N(window/6) - window/100
			}
			switch dice {
			case 0:
				now += rng.Int64N(24 * 3600 * 1_000_000)
			case 1:
				now -= rng.Int64N(24 * 3600 * 1_000_000)
			case 2:
				now -= rng.Int64N(window / 5)
			case 3, 4:
				set.limit.Requests = 1 + rng.Int64N(20)
				c = bind(t, rdb, set.limit)
			}
			if n := len(backs); n > 0 && seed%3 > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(n)
				back := backs[i]
				back.Units = 1 + rng.Int64N(back.Cost)
				got, want := c.returnAt(t, back, now), set.giveBack(back, now)
				if got != want {
					t.Fatalf("seed %d step %d: %v, %+v at %d: %d units, want %d", seed, step, set.limit, back, now, got, want)
				}
				if backs[i].Cost -= got; backs[i].Cost == 0 {
					returned++
					backs = append(backs[:i], backs[i+1:]...)
				}
				continue
			}
			cost, mode := rng.Int64N(set.limit.Requests+2), [...]string{"0", "1", "1", "1", "1"}[rng.IntN(5)]
			if seed%2 == 0 {
				cost = min(cost, 1)
			}
			if seed%3 > 0 && rng.IntN(6) == 0 {
				mode = "!"
				got = c.chargeAt(t, set.client, cost, now)
			} else {
				got = c.takeAt(t, set.client, cost, mode == "1", now)
			}
			if want := set.decide(cost, mode, now); got != want {
				t.Fatalf("seed %d step %d: %v, cost %d, mode %s:\n got %+v\nwant %+v",
					seed, step, set.limit, cost, mode, got, want)
			}
			if got.Allowed && mode != "0" && cost > 0 {
				backs = append(backs, core.Refund{Key: set.client, Cost: cost, At: got.At})
			}
		}
	}
	if returned < 200 {
		t.Errorf("only %d requests were given back", returned)
	}
	t.Logf("proved: %s: %d histories, %d requests given back", t.Name(), histories(150), returned)
}

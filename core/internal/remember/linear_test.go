package remember

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
)

// operation is a request of a history: order is counted over all requests.
type operation struct {
	began, ended int64
	cost         int64
	charge       bool
	decision     core.Decision
}

// apply returns what is counted after o, given the stamps that are counted before, and
// reports whether the answer to o was right.
func (o *operation) apply(limit core.Limit, stamps []time.Time) ([]time.Time, bool) {
	d, units := &o.decision, int64(len(stamps))
	left := limit.Requests - units
	if d.Allowed != (o.cost <= left) {
		return nil, false
	}
	if d.Allowed {
		left -= o.cost
		if o.charge {
			stamps = slices.Clone(stamps)
			for range o.cost {
				stamps = append(stamps, d.At)
			}
		}
		return stamps, d.Remaining == left
	}
	leaves := func(unit int64) time.Time { return stamps[unit].Add(limit.Window) }
	right := d.Remaining == left && (units == 0 || d.At.Add(d.ResetAfter).Equal(leaves(0)))
	if o.cost > limit.Requests {
		return stamps, right && d.RetryAfter == core.Never
	}
	return stamps, right && d.At.Add(d.RetryAfter).Equal(leaves(o.cost-left-1))
}

// linearizable reports whether each of the operations can have taken place at one
// moment between its begin and its end, after those that stamps tell of.
func linearizable(limit core.Limit, history []operation, stamps []time.Time) bool {
	first := int64(math.MaxInt64) // the first end: no operation that began later comes first
	for _, o := range history {
		first = min(first, o.ended)
	}
	for i, o := range history {
		if o.began > first {
			continue
		}
		if after, ok := o.apply(limit, stamps); ok {
			if linearizable(limit, slices.Delete(slices.Clone(history), i, i+1), after) {
				return true
			}
		}
	}
	return len(history) == 0
}

// TestLinearizable: within a process, concurrent requests of one client are answered as if one after the other, with
// refusals remembered.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	const histories = 400
	remembered := 0
	for seed := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) {
			limit, history := randomHistory(seed)
			if !linearizable(limit, history, nil) {
				t.Errorf("seed %d, %v:", seed, limit)
				for _, o := range history {
					t.Logf("%d to %d: cost %d, charge %v: %+v", o.began, o.ended, o.cost, o.charge, o.decision)
				}
			}
			for _, o := range history {
				if o.decision.Source == core.SourceRemembered {
					remembered++
				}
			}
		})
	}
	if t.Logf("%d answers were remembered", remembered); remembered < histories {
		t.Error("too few to prove anything")
	}
}

// randomHistory has four callers ask for one client, at other costs and with other delays each time.
func randomHistory(seed uint64) (core.Limit, []operation) {
	rng := rand.New(rand.NewPCG(seed, 31))
	limit := core.Per(4+rng.Int64N(8), time.Hour).Named("a")
	delays := rand.New(rand.NewPCG(seed, 32))
	var mu sync.Mutex
	link := New().Wrap(bound, fakeserver.Link{Server: fakeserver.New(0, limit), Delay: func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(1 + delays.Int64N(int64(10*ms)))
	}})
	var order atomic.Int64
	var history []operation
	var group sync.WaitGroup
	for range 4 {
		own := rand.New(rand.NewPCG(rng.Uint64(), 33))
		group.Go(func() {
			for range 6 {
				o := operation{began: order.Add(1), cost: own.Int64N(6), charge: own.IntN(6) > 0}
				if own.IntN(12) == 0 {
					o.cost = limit.Requests + 1
				}
				o.decision, _ = link.Take(context.Background(), core.Ask{Key: "client", Cost: o.cost, Peek: !o.charge})
				o.ended = order.Add(1)
				mu.Lock()
				history = append(history, o)
				mu.Unlock()
				time.Sleep(time.Duration(own.Int64N(int64(5 * ms))))
			}
		})
	}
	group.Wait()
	return limit, history
}

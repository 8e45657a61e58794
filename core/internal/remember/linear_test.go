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
	"github.com/sashlimit/sash/core/internal/model/worlds"
)

// operation is a request of a history: order is counted over all requests.
type operation struct {
	began, ended int64
	cost         int64
	charge       bool
	decision     core.Decision
}

// apply returns what the client has used after o, and reports whether the answer to o is that of the definition.
func (o *operation) apply(rule worlds.Rule, client worlds.Client) (worlds.Client, bool) {
	d, verb := &o.decision, worlds.Peek
	if o.charge {
		verb = worlds.Take
	}
	got := worlds.Answer{
		Admitted: d.Allowed, Remaining: d.Remaining,
		ResetAfter: d.ResetAfter.Microseconds(), RetryAfter: d.RetryAfter.Microseconds(),
	}
	if d.RetryAfter == core.Never {
		got.RetryAfter = worlds.Never
	}
	want, after, _ := rule.Ask(client, d.At.UnixMicro(), o.cost, verb)
	return after, got == want
}

// linearizable reports whether each of the operations can have taken place at one
// moment between its begin and its end, after what the client has used.
func linearizable(rule worlds.Rule, history []operation, client worlds.Client) bool {
	first := int64(math.MaxInt64) // the first end: no operation that began later comes first
	for _, o := range history {
		first = min(first, o.ended)
	}
	for i, o := range history {
		if o.began > first {
			continue
		}
		if after, ok := o.apply(rule, client); ok {
			if linearizable(rule, slices.Delete(slices.Clone(history), i, i+1), after) {
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
			rule := worlds.Rule{Limits: []worlds.Limit{{N: limit.Requests, W: limit.Window.Microseconds()}}}
			if !linearizable(rule, history, make(worlds.Client, 1)) {
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
				o.decision = link.Take(context.Background(), core.Ask{Key: "client", Cost: o.cost, Peek: !o.charge})
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

package redisstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

func refusal(after time.Duration) core.Decision {
	return core.Decision{Limit: core.PerHour(1), ResetAfter: after, RetryAfter: after, At: time.Unix(1_790_000_000, 0)}
}

// found is find with its result returned, which says where it comes from.
func (d *denials) found(c *counts, client string, cost int64) (answer core.Decision, ok bool) {
	ok, _ = d.find(c, client, cost, &answer)
	ok = ok && answer.Source == core.Remembered
	answer.Source = core.Unasked
	return answer, ok
}

// TestDenialsOnAClock: a refusal is remembered from before the question until
// it may end, and asked about once a second by one caller.
func TestDenialsOnAClock(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		d, rule := newDenials(), &counts{id: 1}
		sent := time.Now()
		time.Sleep(300 * ms) // the answer is slow
		d.note(rule, "k", 1, sent, refusal(2500*ms))
		remembered := func(want bool) (answer core.Decision) {
			t.Helper()
			answer, ok := d.found(rule, "k", 1)
			if ok != want {
				t.Errorf("%v after it was asked: remembered %v, want %v", time.Since(sent), ok, want)
			}
			return answer
		}
		time.Sleep(200 * ms)
		if answer := remembered(true); answer != (core.Decision{Limit: core.PerHour(1), ResetAfter: 2300 * ms, RetryAfter: 2300 * ms, At: time.Unix(1_790_000_000, 200e6)}) {
			t.Errorf("200 ms after the answer: %+v", answer)
		}
		if _, ok := d.found(rule, "k", 2); ok {
			t.Error("another cost")
		}
		if _, ok := d.found(&counts{id: 2}, "k", 1); ok {
			t.Error("another rule")
		}
		time.Sleep(500*ms - 1)
		remembered(true)
		time.Sleep(time.Nanosecond) // a second after it was asked
		remembered(false)
		remembered(true) // while that one asks
		time.Sleep(time.Second)
		remembered(false)
		remembered(true)
		time.Sleep(500*ms - 1)
		remembered(true)
		time.Sleep(time.Nanosecond) // the retry moment, by the server's clock at the latest
		remembered(false)
		remembered(false)

		// One who asks and leaves gives its turn to another.
		d.note(rule, "k", 1, time.Now(), refusal(time.Hour))
		time.Sleep(time.Second)
		for range 3 {
			remembered(false)
			d.unanswered(rule, "another", 1)
			d.unanswered(rule, "k", 2)
			time.Sleep(500 * ms)
			remembered(true)
			d.unanswered(rule, "k", 1)
			time.Sleep(denialRecheck - 1)
			remembered(true)
			time.Sleep(time.Nanosecond)
		}
		d.forget("k")
		time.Sleep(ms)

		// An answer to a question from before a reset is not believed.
		sent = time.Now()
		time.Sleep(ms)
		d.forget("k")
		d.note(rule, "k", 1, sent, refusal(time.Hour))
		remembered(false)
		time.Sleep(ms)
		d.note(rule, "k", 1, time.Now(), refusal(time.Hour))
		remembered(true)
		// Of a counter, what ends first: its fixed window or the refusal.
		for _, c := range []struct{ reset, retry time.Duration }{{40 * ms, 70 * ms}, {70 * ms, 40 * ms}} {
			d.note(rule, "counter", 1, time.Now(), core.Decision{Limit: core.PerHour(1).Using(core.SlidingCounter), ResetAfter: c.reset, RetryAfter: c.retry})
			time.Sleep(40*ms - 1)
			if answer, ok := d.found(rule, "counter", 1); !ok || answer.ResetAfter <= 0 || answer.RetryAfter <= 0 {
				t.Errorf("%+v, remembered %v", answer, ok)
			}
			time.Sleep(time.Nanosecond)
			if answer, ok := d.found(rule, "counter", 1); ok {
				t.Errorf("%+v is still remembered", answer)
			}
		}
		// Where something remains, an admission at another cost ends it.
		some := refusal(time.Hour)
		some.Remaining = 2
		d.note(rule, "some", 3, time.Now(), some)
		if answer, ok := d.found(rule, "some", 3); !ok || answer != some {
			t.Errorf("%+v, remembered %v", answer, ok)
		}
		d.note(rule, "some", 2, time.Now(), core.Decision{Allowed: true})
		if answer, ok := d.found(rule, "some", 3); ok {
			t.Errorf("%+v is still remembered", answer)
		}
		// Where nothing is counted, a cost above the limit is asked about again
		// after a second.
		never := core.Decision{Limit: core.PerHour(1), Remaining: 1, RetryAfter: core.Never, At: time.Unix(1_790_000_000, 0)}
		d.note(rule, "never", 2, time.Now(), never)
		time.Sleep(denialCheck - 1)
		never.At = never.At.Add(denialCheck - time.Microsecond)
		if answer, ok := d.found(rule, "never", 2); !ok || answer != never {
			t.Errorf("%+v, remembered %v", answer, ok)
		}
		time.Sleep(time.Nanosecond)
		if answer, ok := d.found(rule, "never", 2); ok {
			t.Errorf("%+v is still remembered", answer)
		}
		if answer, ok := d.found(rule, "never", 2); !ok {
			t.Errorf("%+v is not remembered while one asks", answer)
		}
		// An admission ends it.
		d.note(rule, "k", 1, time.Now(), core.Decision{Allowed: true})
		remembered(false)
	})
}

// TestDenialsOfOthers: what is remembered of a client for whom something remains
// stands while others are admitted.
func TestDenialsOfOthers(t *testing.T) {
	const others = 1000
	d, rule := newDenials(), &counts{id: 1}
	some := refusal(time.Hour)
	some.Remaining = 2
	d.note(rule, "k", 3, time.Now(), some)
	shard, _ := d.shard("k")
	asked := 0
	for i, n := 0, 0; n < others; i++ {
		other := fmt.Sprint(i)
		if s, _ := d.shard(other); s != shard {
			continue
		}
		n++
		d.note(rule, other, 1, time.Now(), core.Decision{Allowed: true})
		if _, ok := d.found(rule, "k", 3); !ok {
			asked++
			d.note(rule, "k", 3, time.Now(), some)
		}
	}
	if asked > others/20 {
		t.Errorf("asked %d times while %d others were admitted", asked, others)
	}
}

// TestDenialsNotContradicted: a refusal with something remaining is not remembered beside
// an answer that may know of more admissions, in whichever order the answers come.
func TestDenialsNotContradicted(t *testing.T) {
	const ms = time.Millisecond
	rule, other := &counts{id: 1}, &counts{id: 2}
	refused := func(remaining int64) core.Decision {
		d := refusal(time.Hour)
		d.Remaining = remaining
		return d
	}
	elsewhere := refused(3)
	elsewhere.Limit = core.PerHour(7).Using(core.SlidingCounter).Named("another")
	raised := refused(3) // as many counted units more as the limit is higher
	raised.Limit.Requests++
	for name, c := range map[string]struct {
		later      core.Decision // an answer that came before the refusal that is noted, and was asked for after it
		rule       *counts
		cost       int64
		remembered int64 // what remains by the refusal that is remembered, or -1
	}{
		"an admission":                          {core.Decision{Allowed: true}, rule, 1, -1},
		"an admission by another rule":          {core.Decision{Allowed: true}, other, 1, -1},
		"a look at what is left":                {core.Decision{Allowed: true}, rule, 0, -1},
		"a refusal with the same numbers":       {refused(3), rule, 5, 3},
		"a refusal with less":                   {refused(2), rule, 5, -1},
		"a refusal of the same cost with less":  {refused(2), rule, 4, -1},
		"a refusal with nothing":                {refused(0), rule, 5, -1},
		"a refusal by another limit":            {elsewhere, rule, 5, -1},
		"a refusal by a raised limit":           {raised, other, 5, -1},
		"an earlier refusal by another limit":   {elsewhere, nil, 5, 3},
		"an earlier refusal of more by a limit": {refused(4), nil, 5, 3},
	} {
		// Unless a refusal is known already, any other that comes first is news.
		for _, known := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				d := newDenials()
				if known {
					d.note(rule, "k", 4, time.Now(), refused(3))
					time.Sleep(ms)
				}
				asked := time.Now()
				if c.rule == nil {
					d.note(rule, "k", c.cost, time.Now(), c.later)
					time.Sleep(ms)
					asked = time.Now()
				}
				time.Sleep(ms)
				if c.rule != nil {
					d.note(c.rule, "k", c.cost, time.Now(), c.later)
				}
				time.Sleep(ms)
				d.note(rule, "k", 4, asked, refused(3))
				answer, ok := d.found(rule, "k", 4)
				if ok != (c.remembered >= 0 && (known || c.rule == nil)) || ok && answer.Remaining != c.remembered {
					t.Errorf("after %s: %+v, remembered %v", name, answer, ok)
				}
				d.note(rule, "k", 4, time.Now(), refused(3))
				if _, ok := d.found(rule, "k", 4); !ok && c.rule == nil {
					t.Errorf("after %s, the next refusal is not remembered", name)
				}
			})
		}
	}
}

// TestDenialsAskedBefore: a refusal that was asked for before the numbers of the newest one came
// again may know of more admissions than that one, however late it comes.
func TestDenialsAskedBefore(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		d, rule := newDenials(), &counts{id: 1}
		some, nothing := refusal(time.Hour), refusal(time.Hour)
		some.Remaining = 2
		d.note(rule, "k", 4, time.Now(), some)
		time.Sleep(ms)
		early := time.Now()
		time.Sleep(ms)
		d.note(rule, "k", 3, time.Now(), some)
		time.Sleep(ms)
		d.note(rule, "k", 5, early, nothing)
		time.Sleep(ms)
		for cost := int64(3); cost <= 4; cost++ {
			if answer, ok := d.found(rule, "k", cost); ok {
				t.Errorf("cost %d: %+v is still remembered", cost, answer)
			}
		}
	})
}

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

// TestDenialsLinearizable: within a process, concurrent requests of one client are
// answered as if one after the other, with refusals remembered.
func TestDenialsLinearizable(t *testing.T) {
	t.Parallel()
	const histories = 400
	remembered := 0
	for seed := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 31))
			limit := core.Per(4+rng.Int64N(8), time.Hour).Named("a")
			delays := rand.New(rand.NewPCG(seed, 32))
			var mu sync.Mutex
			k := link{newLogServer(0, limit), func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(1 + delays.Int64N(int64(10*time.Millisecond)))
			}, func() bool { return false }}
			r := remembering{k, newDenials(), &counts{id: 1}}
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
						if found, _ := r.find("client", o.cost, &o.decision); !found {
							o.decision, _ = r.take(ctx, time.Time{}, "client", o.cost, o.charge)
						}
						o.ended = order.Add(1)
						mu.Lock()
						history = append(history, o)
						if o.decision.Source == core.Remembered {
							remembered++
						}
						mu.Unlock()
						time.Sleep(time.Duration(own.Int64N(int64(5 * time.Millisecond))))
					}
				})
			}
			group.Wait()
			if !linearizable(limit, history, nil) {
				t.Errorf("seed %d, %v:", seed, limit)
				for _, o := range history {
					t.Logf("%d to %d: cost %d, charge %v: %+v", o.began, o.ended, o.cost, o.charge, o.decision)
				}
			}
		})
	}
	if t.Logf("%d answers were remembered", remembered); remembered < histories {
		t.Error("too few to prove anything")
	}
}

// TestDenialsBounded: a flood of clients that are all refused does not grow what
// is remembered, and the newest is.
func TestDenialsBounded(t *testing.T) {
	d, rule := newDenials(), &counts{id: 1}
	for i := range 3 * denialShards * denialsInShard {
		client := fmt.Sprint(i)
		d.note(rule, client, 1, time.Now(), refusal(time.Hour))
		if _, ok := d.found(rule, client, 1); !ok {
			t.Fatalf("%s is not remembered", client)
		}
	}
	n := 0
	for i := range d.shards {
		n += len(d.shards[i].byKey)
	}
	if n > denialShards*denialsInShard {
		t.Errorf("%d are remembered", n)
	}
}

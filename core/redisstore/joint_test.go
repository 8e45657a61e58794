package redisstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/internal/redistest"
)

// jointRules are rules that decide together in the tests.
func jointRules(t *testing.T, s *Store, rules ...[]core.Limit) (counts []core.Counts) {
	t.Helper()
	for i, limits := range rules {
		l := core.Must(core.New(core.Config{Name: "test", Store: s, Limits: limits}))
		c, err := s.Bind(core.Rule{Name: "test", Rule: fmt.Sprint(i), Limits: l.Limits()})
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, c)
	}
	return counts
}

// TestJointAgainstModel: requests by several rules are all counted or none, and each has
// the decision that it would have alone.
func TestJointAgainstModel(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for seed := range uint64(15) {
			rng := rand.New(rand.NewPCG(seed, 31))
			rules := [][]core.Limit{
				{core.Per(8, 30*time.Millisecond).Named("a")},
				{core.Per(3, 8*time.Millisecond).Named("b"), core.Per(20, time.Hour).Named("c").Using(core.SlidingCounter)},
				{core.Per(6, 20*time.Millisecond).Named("d").Using(core.SlidingCounter)},
			}
			s := New(rdb, WithPrefix(fmt.Sprint("joint", seed)))
			counts := jointRules(t, s, rules...)
			clients := make([]model.Client, len(rules))
			for step := range 120 {
				order := rng.Perm(len(rules))[:1+rng.IntN(len(rules))]
				cost, peek := rng.Int64N(3), rng.IntN(5) == 0
				var all []core.Counts
				var asks []core.Ask
				for _, i := range order {
					all = append(all, counts[i])
					asks = append(asks, core.Ask{Key: fmt.Sprint("k", i), Cost: cost, Peek: peek, Timeout: 20 * time.Second})
				}
				got, err := all[0].(core.Joint).TakeJointly(ctx, all, asks)
				if err != nil || len(got) != len(order) {
					t.Fatalf("%v, %v", got, err)
				}
				admitted := true
				for _, d := range got {
					admitted = admitted && d.Allowed
				}
				for n, i := range order {
					if got[n].Source == core.Unasked {
						continue // another one was refused from memory
					}
					want := clients[i].Decide(rules[i], got[n].At, cost, admitted && !peek)
					if want.Source = got[n].Source; got[n] != want {
						t.Fatalf("seed %d step %d, rule %d of %v, cost %d:\n got %+v\nwant %+v", seed, step, i, order, cost, got[n], want)
					}
				}
				if rng.IntN(4) == 0 {
					time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
				}
			}
		}
	})
}

// TestJointTogether: joint requests of many callers, among others that wait at the same
// time, exceed no limit, and what one limit refuses no other counts.
func TestJointTogether(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	s := New(rdb)
	const callers, each, all = 40, 3, 30
	counts := jointRules(t, s, []core.Limit{core.Per(each, core.MaxWindow)}, []core.Limit{core.Per(all, core.MaxWindow)})
	admitted := make([]int, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := range 10 {
				asks := []core.Ask{
					{Key: fmt.Sprint("client ", i), Cost: 1, Timeout: 20 * time.Second},
					{Key: "all", Cost: 1, Timeout: 20 * time.Second},
				}
				if n%5 == 4 {
					if _, err := counts[0].Take(ctx, core.Ask{Key: "another", Cost: 0, Timeout: 20 * time.Second}); err != nil {
						t.Error(err)
					}
				}
				got, err := counts[0].(core.Joint).TakeJointly(ctx, counts, asks)
				if err != nil {
					t.Error(err)
					return
				}
				if got[0].Allowed && got[1].Allowed {
					admitted[i]++
				}
			}
		})
	}
	group.Wait()
	sum := 0
	for i, n := range admitted {
		if sum += n; n > each {
			t.Errorf("client %d: %d admitted, want at most %d", i, n, each)
		}
	}
	uses, err := counts[1].Usage(ctx, "all")
	if err != nil || sum != all || uses[0].Used != all {
		t.Errorf("%d admitted, %+v are counted, %v; want %d", sum, uses, err, all)
	}
	for i, n := range admitted {
		uses, err := counts[0].Usage(ctx, fmt.Sprint("client ", i))
		if err != nil || uses[0].Used != int64(n) {
			t.Errorf("client %d: %d admitted, %+v are counted, %v", i, n, uses, err)
		}
	}
}

// TestJointNot: what one script cannot decide is left to the caller, and nothing is asked.
func TestJointNot(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	s, other := New(rdb), New(rdb)
	limits := []core.Limit{core.PerHour(5)}
	var many []core.Limit
	for i := range maxLimits {
		many = append(many, core.PerHour(5).Named(fmt.Sprint(i)))
	}
	own, of := jointRules(t, s, limits, limits, many), jointRules(t, other, limits)
	cluster := jointRules(t, New(redistest.StartCluster(t, 3, 0).Client(t)), limits, limits)
	k := core.Ask{Key: "k", Cost: 1}
	for name, c := range map[string]struct {
		counts []core.Counts
		asks   []core.Ask
	}{
		"another store": {[]core.Counts{own[0], of[0]}, []core.Ask{k, k}},
		"a cluster":     {cluster, []core.Ask{k, k}},
		"other costs":   {own[:2], []core.Ask{k, {Key: "k", Cost: 2}}},
		"a peek":        {own[:2], []core.Ask{k, {Key: "k", Cost: 1, Peek: true}}},
		"a charge":      {own[:2], []core.Ask{k, {Key: "k", Cost: 1, Special: &core.Special{Charge: true}}}},
		"many limits":   {[]core.Counts{own[0], own[2]}, []core.Ask{k, k}},
		"one key twice": {[]core.Counts{own[0], own[0]}, []core.Ask{k, k}},
	} {
		if got, err := c.counts[0].(core.Joint).TakeJointly(ctx, c.counts, c.asks); got != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, c := range own {
		if uses, err := c.Usage(ctx, "k"); err != nil || uses[0].Used != 0 {
			t.Errorf("%+v, %v", uses, err)
		}
	}
	got, err := own[0].(core.Joint).TakeJointly(ctx, own[:2], []core.Ask{k, k})
	if err != nil || len(got) != 2 || !got[0].Allowed || !got[1].Allowed {
		t.Errorf("two rules: %+v, %v", got, err)
	}
}

// TestTogetherOneScript: core.Together on a single server is one script, with leases too,
// and a refusal of one limit leaves the other untouched.
func TestTogetherOneScript(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for name, options := range map[string][]Option{"plain": nil, "leased": {WithLease(100, 100*time.Millisecond)}} {
		s := New(rdb, options...)
		limiterOf := func(rule string, limit core.Limit) *core.Limiter {
			return core.Must(core.New(core.Config{
				Name: name + rule, Store: s, Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
			}))
		}
		own, all := limiterOf("own", core.PerHour(3)), limiterOf("all", core.PerDay(1000))
		pair := func(client string) []core.Pair {
			return []core.Pair{
				{Limiter: own, Request: core.Request{Key: client, Cost: 1}},
				{Limiter: all, Request: core.Request{Key: "all", Cost: 1}},
			}
		}
		core.Together(ctx, pair("warm")...)
		before := scripts(t, rdb)
		for left := int64(2); left >= 0; left-- {
			if d, i := core.Together(ctx, pair("k")...); !d.Allowed || d.Remaining != left || i != 0 || d.Err != nil {
				t.Fatalf("%s: %+v of pair %d, want %d remaining", name, d, i, left)
			}
		}
		for range 10 {
			if d, i := core.Together(ctx, pair("k")...); d.Allowed || d.RetryAfter <= 0 || i != 0 || d.Err != nil {
				t.Fatalf("%s: %+v of pair %d, want a refusal by the first", name, d, i)
			}
		}
		if n := scripts(t, rdb) - before; n != 4 { // the other refusals are remembered
			t.Errorf("%s: %d scripts, want 4", name, n)
		}
		if uses, err := all.Usage(ctx, "all"); err != nil || uses[0].Used != 4 {
			t.Errorf("%s: %+v, %v; want 4 used", name, uses, err)
		}
	}
}

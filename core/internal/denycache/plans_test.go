package denycache_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/denycache"
	"github.com/sashlimit/sash/core/memstore"
)

// TestPlans: whatever limits share the counts of a client, of the rule, of another rule or of a request, and whatever
// is given back, within a process a cached refusal has the numbers of the store.
func TestPlans(t *testing.T) {
	for _, algorithm := range core.Algorithms() {
		var cached [2]int
		for seed := range uint64(40) {
			synctest.Test(t, func(t *testing.T) { plans(t, rand.New(rand.NewPCG(seed, 18)), algorithm, &cached) })
		}
		if cached[0] == 0 || cached[1] == 0 {
			t.Errorf("%v: %d cached refusals by a rule and by limits of a request", algorithm, cached)
		}
	}
}

// plans runs one history of TestPlans. It adds up the refusals from the cache, by a rule and by limits of a request.
func plans(t *testing.T, rng *rand.Rand, algorithm core.Algorithm, cached *[2]int) {
	store := memstore.New()
	limits := func(n int64) []core.Limit {
		return []core.Limit{core.Per(n, 10*time.Hour).Using(algorithm).Named("plan")}
	}
	type plan struct{ process, direct core.Ledger } // with a cache, and without
	var all []plan
	cache := denycache.New()
	for range 1 + rng.IntN(2)*3 {
		binding := core.Binding{Name: "api", Limits: limits(1 + rng.Int64N(4))}
		direct := core.Must(store.Bind(binding))
		all = append(all, plan{cache.Wrap(binding, direct), direct})
	}
	kinds := 1 + rng.IntN(2)
	for range 100 {
		time.Sleep([]time.Duration{time.Millisecond, 100 * time.Millisecond, 3 * time.Hour}[rng.IntN(20)/9])
		p := all[rng.IntN(len(all))]
		ask := core.Ask{Key: "k", Cost: 1 + rng.Int64N(2), Peek: rng.IntN(4) == 0}
		kind := rng.IntN(kinds)
		if kind == 1 {
			ask.Override = &core.Override{Limits: limits(1 + rng.Int64N(4))}
		}
		look := ask
		look.Peek = true
		want := p.direct.Take(context.Background(), look)
		got := p.process.Take(context.Background(), ask)
		if got.Source == core.SourceCached {
			cached[kind]++
			got.Source = want.Source
		}
		if got != want {
			t.Errorf("%v: %+v, want %+v", ask, got, want)
		}
		if got.Allowed && !ask.Peek && rng.IntN(3) == 0 {
			back := core.Refund{Key: "k", Cost: ask.Cost, At: got.At, Units: 1}
			if _, err := p.process.Return(context.Background(), back); err != nil {
				t.Error(err)
			}
		}
	}
}

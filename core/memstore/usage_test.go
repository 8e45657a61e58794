package memstore_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// usage returns what the client k has used of the limiter's only limit.
func usage(t *testing.T, l *core.Limiter) core.Usage {
	t.Helper()
	uses, err := l.Usage(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	return uses[0]
}

// TestUsageOfAnEvictedClient: an evicted client is said to have used at least what it
// has, until at least as long, and what is said agrees with a decision.
func TestUsageOfAnEvictedClient(t *testing.T) {
	for _, a := range algorithms {
		for _, n := range []int64{1, 5, 3001} { // a sketch rounds the last up
			s, c := newStore(memstore.DefaultMaxBytes)
			l := limiter(t, s, core.Per(1_000_000, time.Hour).Using(a))
			twin := limiter(t, memstore.New(memstore.WithClock(c.Now)), core.Per(1_000_000, time.Hour).Using(a))
			l.AllowN(ctx, "k", n)
			twin.AllowN(ctx, "k", n)
			s.EvictAll()
			for range 6 {
				c.Add(20 * time.Minute)
				got, want := usage(t, l), usage(t, twin)
				if got.Used < want.Used || want.Used > 0 && got.Used > n+n/500 || got.ResetAfter < want.ResetAfter {
					t.Errorf("%v: evicted %+v, in a store of its own %+v", a, got, want)
				}
				if d := l.AllowN(ctx, "k", 0); d.Remaining != got.Remaining || d.ResetAfter != got.ResetAfter {
					t.Errorf("%v: %+v, a decision says %+v", a, got, d)
				}
			}
		}
	}
}

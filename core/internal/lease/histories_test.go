//go:build !race && !short

package lease

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestModelFurther goes through the histories for which TestModel has no time under the race detector.
func TestModelFurther(t *testing.T) { testModel(t, 1, 2, 3) }

// TestReturnHistories: however units are leased, spent and given back, no window holds more than the limit of what was
// spent and not given back. What the server counted always goes back.
func TestReturnHistories(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { returnHistory(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// returnHistory makes requests of costs below and above what a lease may be, and gives their units back. The pauses are
// about as long as what is left of a lease, or of a window.
func returnHistory(t *testing.T, rng *rand.Rand) {
	limit := core.Per(1000, time.Minute)
	s := newFixture(Terms{100, 5 * time.Second}, limit)
	s.delay = time.Duration(rng.IntN(20)) * time.Millisecond
	type spent struct {
		*core.Reservation
		at    time.Time
		units int64
	}
	var all []spent
	for range 1000 {
		pause := 20 * time.Millisecond
		switch {
		case rng.IntN(20) == 0: // the rest of the lease
			pause = 5 * time.Second
		case rng.IntN(40) == 0: // until what came before is about to leave the window
			time.Sleep(limit.Window - 5*time.Second)
			pause = 5 * time.Second
		}
		time.Sleep(time.Duration(rng.Int64N(int64(pause))))
		if rng.IntN(3) == 0 && len(all) > 0 {
			one := &all[max(0, len(all)-1-rng.IntN(5))]
			n, err := one.Return(t.Context(), one.units)
			if err != nil || one.Decision.Source == core.SourceCounted && n != one.units {
				t.Fatalf("%+v: gave %d of %d, %v", one.Decision, n, one.units, err)
			}
			one.units -= n
			continue
		}
		cost := 1 + rng.Int64N(30)
		if rng.IntN(5) == 0 {
			cost = 101 + rng.Int64N(800)
		}
		r := s.limiter.Reserve(t.Context(), core.Request{Key: "client", Cost: cost})
		if r.Decision.Allowed {
			all = append(all, spent{r, time.Now(), cost})
		}
		all = slices.DeleteFunc(all, func(one spent) bool { return time.Since(one.at) >= limit.Window })
		used := int64(0)
		for _, one := range all {
			used += one.units
		}
		if used > limit.Requests {
			t.Fatalf("%d units in a window of %v", used, limit)
		}
	}
}

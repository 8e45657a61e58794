package lease

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestReturnToLease: a unit goes back to the lease that it came from, while that lasts,
// and never to a later one, where it would count for too short a time.
func TestReturnToLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, core.Per(100_000, time.Minute), 50)
		s.leased(t)
		reserve := func() *core.Reservation {
			return s.limiter.Reserve(t.Context(), core.Request{Key: "client", Cost: 1})
		}
		r := reserve()
		left := s.unspent()
		n, err := r.Return(t.Context(), 1)
		if r.Decision.Source != core.Leased || n != 1 || err != nil || s.unspent() != left+1 {
			t.Fatalf("%+v: %d, %v, %d unspent, want %d", r.Decision, n, err, s.unspent(), left+1)
		}
		old := reserve()
		s.empty(t)
		s.leased(t) // a new one
		left = s.unspent()
		if n, err := old.Return(t.Context(), 1); n != 0 || err != nil || s.unspent() != left {
			t.Errorf("from an earlier lease: %d, %v, %d unspent, want %d", n, err, s.unspent(), left)
		}
		late := reserve()
		time.Sleep(5 * time.Second)
		if n, err := late.Return(t.Context(), 1); late.Decision.Source != core.Leased || n != 0 || err != nil {
			t.Errorf("after the end: %d, %v", n, err)
		}
	})
}

// TestReturnHistories: however units are leased, spent and given back, no window holds
// more than the limit of what was spent and not given back.
func TestReturnHistories(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			limit := core.Per(200, time.Minute)
			s := newScene(t, limit, 10)
			s.way = time.Duration(rng.IntN(20)) * time.Millisecond
			type spent struct {
				*core.Reservation
				at    time.Time
				still bool
			}
			var all []*spent
			for range 3000 {
				time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
				if rng.IntN(3) == 0 && len(all) > 0 {
					one := all[max(0, len(all)-1-rng.IntN(40))]
					if n, err := one.Return(t.Context(), 1); err != nil {
						t.Fatal(err)
					} else if n == 1 {
						one.still = false
					}
					continue
				}
				r := s.limiter.Reserve(t.Context(), core.Request{Key: "client", Cost: 1})
				if r.Decision.Allowed {
					all = append(all, &spent{r, time.Now(), true})
				}
				held := int64(0)
				for _, one := range all {
					if one.still && time.Since(one.at) < limit.Window {
						held++
					}
				}
				if held > limit.Requests {
					t.Fatalf("seed %d: %d units in a window of %v", seed, held, limit)
				}
			}
		})
	}
}

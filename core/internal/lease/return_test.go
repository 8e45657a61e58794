package lease

import (
	"math/rand/v2"
	"slices"
	"sync"
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
		if r.Decision.Source != core.SourceLeased || n != 1 || err != nil || s.unspent() != left+1 {
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
		if n, err := late.Return(t.Context(), 1); late.Decision.Source != core.SourceLeased || n != 0 || err != nil {
			t.Errorf("after the end: %d, %v", n, err)
		}
		s.warm(t, 1)
		s.leased(t)
		old = reserve()
		later := reserve() // a reservation gives back once
		if err := s.limiter.Reset(t.Context(), "client"); err != nil {
			t.Fatal(err)
		}
		if n, err := old.Return(t.Context(), 1); old.Decision.Source != core.SourceLeased || n != 0 || err != nil {
			t.Errorf("after a reset: %d, %v", n, err)
		}
		s.Server.Reset() // and its clock is stepped back
		s.Skew -= 10 * time.Second
		s.leased(t)
		left = s.unspent()
		if n, err := later.Return(t.Context(), 1); n != 0 || err != nil || s.unspent() != left {
			t.Errorf("from a lease whose times were later: %d, %v, %d unspent, want %d", n, err, s.unspent(), left)
		}
	})
}

// TestReturnMeanwhile: a unit that was spent while the next lease was on its way goes to none, and one that was spent
// right after goes back to the next.
func TestReturnMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, core.Per(100_000, time.Minute), 50)
		for s.unspent() < 10 {
			s.warm(t, 1)
		}
		s.allow(t, s.unspent()-1)
		s.way = 10 * time.Millisecond
		reserve := func(cost int64) *core.Reservation {
			return s.limiter.Reserve(t.Context(), core.Request{Key: "client", Cost: cost})
		}
		var group sync.WaitGroup
		group.Go(func() { reserve(2) })
		time.Sleep(2*s.way - time.Millisecond)
		old := reserve(1)
		group.Wait()
		next := reserve(1)
		if old.Decision.Source != core.SourceLeased || next.Decision.Source != core.SourceLeased {
			t.Fatalf("%+v, %+v", old.Decision, next.Decision)
		}
		if n, err := old.Return(t.Context(), 1); n != 0 || err != nil {
			t.Errorf("from the lease before: %d, %v, want 0", n, err)
		}
		if n, err := next.Return(t.Context(), 1); n != 1 || err != nil {
			t.Errorf("from the lease that is there: %d, %v, want 1", n, err)
		}
	})
}

// TestReturnHistories: however units are leased, spent and given back, no window holds more than the limit of what was
// spent and not given back. What the server counted always goes back.
func TestReturnHistories(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { returnHistory(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// returnHistory makes requests of costs below and above what a lease may be, and gives their units back. The pauses are
// about as long as what is left of a lease, or of a window.
func returnHistory(t *testing.T, rng *rand.Rand) {
	limit := core.Per(1000, time.Minute)
	s := newScene(t, limit, 100)
	s.way = time.Duration(rng.IntN(20)) * time.Millisecond
	type spent struct {
		*core.Reservation
		at    time.Time
		units int64
	}
	var all []spent
	for range 3000 {
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
		held := int64(0)
		for _, one := range all {
			held += one.units
		}
		if held > limit.Requests {
			t.Fatalf("%d units in a window of %v", held, limit)
		}
	}
}

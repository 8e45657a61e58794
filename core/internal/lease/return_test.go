package lease

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
)

// TestReturnToLease: a unit goes back to the lease that it came from, while that lasts,
// and never to a later one, where it would count for too short a time.
func TestReturnToLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, core.Per(100_000, time.Minute), 50)
		s.acquire(t)
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
		s.drain(t)
		s.acquire(t) // a new one
		left = s.unspent()
		if n, err := old.Return(t.Context(), 1); n != 0 || err != nil || s.unspent() != left {
			t.Errorf("from an earlier lease: %d, %v, %d unspent, want %d", n, err, s.unspent(), left)
		}
		late := reserve()
		time.Sleep(5 * time.Second)
		if n, err := late.Return(t.Context(), 1); late.Decision.Source != core.SourceLeased || n != 0 || err != nil {
			t.Errorf("after the end: %d, %v", n, err)
		}
		s.warmUp(t, 1)
		s.acquire(t)
		old = reserve()
		later := reserve() // a reservation gives back once
		if err := s.limiter.Reset(t.Context(), "client"); err != nil {
			t.Fatal(err)
		}
		if n, err := old.Return(t.Context(), 1); old.Decision.Source != core.SourceLeased || n != 0 || err != nil {
			t.Errorf("after a reset: %d, %v", n, err)
		}
		s.Client = model.Client{} // and its clock is stepped back
		s.Skew -= 10 * time.Second
		s.acquire(t)
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
		s := newFixture(t, core.Per(100_000, time.Minute), 50)
		for s.unspent() < 10 {
			s.warmUp(t, 1)
		}
		s.allow(t, s.unspent()-1)
		s.delay = 10 * time.Millisecond
		reserve := func(cost int64) *core.Reservation {
			return s.limiter.Reserve(t.Context(), core.Request{Key: "client", Cost: cost})
		}
		var group sync.WaitGroup
		group.Go(func() { reserve(2) })
		time.Sleep(2*s.delay - time.Millisecond)
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

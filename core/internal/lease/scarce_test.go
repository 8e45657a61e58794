package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// newScarceFixture returns a fixture whose client has the given units left, and demand for a larger lease.
func newScarceFixture(t *testing.T, left int64) *fixture {
	t.Helper()
	s := newFixture(t, core.Per(1000, time.Minute), 100)
	s.warmUp(t, 20)
	s.drain(t)
	remaining := s.Decide(s.Now(), core.Ask{}).Remaining
	s.Decide(s.Now(), core.Ask{Cost: remaining - left})
	return s
}

// TestRenewTwice: a renewal asks for a smaller lease once, however the rest shrinks.
func TestRenewTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScarceFixture(t, 10)
		others, before := 0, s.Scripts
		s.store.Delay = func() time.Duration { // another process takes a unit
			s.Decide(s.Now(), core.Ask{Cost: 1})
			others++
			return s.delay
		}
		if d := s.allow(t, 1); !d.Allowed {
			t.Errorf("%+v", d)
		}
		if n := s.Scripts - before - others; n != 3 { // two for a lease, and one for the request
			t.Errorf("%d scripts, want 3", n)
		}
	})
}

// TestRenewWholeRequests: what is leased where there is less than wanted is for whole requests.
func TestRenewWholeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScarceFixture(t, 11)
		if d := s.allow(t, 3); !d.Allowed || s.unspent() != 6 {
			t.Errorf("%+v, %d left, want 6", d, s.unspent())
		}
	})
}

// TestRoundTripWithoutWait: the recorded round trip of a delayed request excludes the wait.
func TestRoundTripWithoutWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScarceFixture(t, 1)
		s.delay = 10 * time.Millisecond
		d := s.allow(t, 1)
		holder, shard := s.rule.holder("client")
		if got := shard.byHolder[holder].roundTrip; !d.Allowed || got != 2*s.delay {
			t.Errorf("%+v: took %v, want %v", d, got, 2*s.delay)
		}
	})
}

// TestNothingForGoneCaller: if there is nothing to lease, no unit is counted for a caller that has left.
func TestNothingForGoneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScarceFixture(t, 1)
		s.delay = 10 * time.Millisecond
		if err := s.take(t.Context(), time.Millisecond).Err; err == nil {
			t.Error("answered in time")
		}
		time.Sleep(time.Second)
		if n := s.Decide(s.Now(), core.Ask{}).Remaining; n != 1 {
			t.Errorf("%d units remain, want 1", n)
		}
	})
}

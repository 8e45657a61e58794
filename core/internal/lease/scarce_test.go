package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// scarce returns a scene in which the client has so many units left, and is busy enough for a larger lease.
func scarce(t *testing.T, left int64) *scene {
	t.Helper()
	s := newScene(t, core.Per(1000, time.Minute), 100)
	s.warm(t, 20)
	s.empty(t)
	remaining := s.Decide(s.Now(), core.Ask{}).Remaining
	s.Decide(s.Now(), core.Ask{Cost: remaining - left})
	return s
}

// TestRenewTwice: where there is less to lease than wanted, what there is is asked for once, however it shrinks
// meanwhile.
func TestRenewTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scarce(t, 10)
		others, before := 0, s.Scripts
		s.store.Delay = func() time.Duration { // another process takes a unit
			s.Decide(s.Now(), core.Ask{Cost: 1})
			others++
			return s.way
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
		s := scarce(t, 11)
		if d := s.allow(t, 3); !d.Allowed || s.unspent() != 6 {
			t.Errorf("%+v, %d left, want 6", d, s.unspent())
		}
	})
}

// TestNothingLeftTook: a caller that gets the last unit alone has learned how long that took, without the wait before.
func TestNothingLeftTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scarce(t, 1)
		s.way = 10 * time.Millisecond
		d := s.allow(t, 1)
		holder, shard := s.rule.holder("client")
		if took := shard.byHolder[holder].took; !d.Allowed || took != 2*s.way {
			t.Errorf("%+v: took %v, want %v", d, took, 2*s.way)
		}
	})
}

// TestNothingLeftFor: where there is nothing to lease, no unit is counted for a caller that has left meanwhile.
func TestNothingLeftFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scarce(t, 1)
		s.way = 10 * time.Millisecond
		if err := s.take(t.Context(), time.Millisecond).Err; err == nil {
			t.Error("answered in time")
		}
		time.Sleep(time.Second)
		if n := s.Decide(s.Now(), core.Ask{}).Remaining; n != 1 {
			t.Errorf("%d units remain, want 1", n)
		}
	})
}

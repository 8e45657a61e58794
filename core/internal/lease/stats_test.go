package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestUnspent: a lease counts for as long as something of it can be spent.
func TestUnspent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, core.Per(100_000, time.Hour), 1000)
		want := func(leases, units int64) {
			t.Helper()
			if n, left := s.rule.table.Unspent(time.Now()); n != leases || left != units {
				t.Errorf("%d leases with %d units, want %d with %d", n, left, leases, units)
			}
		}
		want(0, 0)
		s.leased(t)
		units := s.unspent()
		want(1, units)
		other := "another client"
		for range 20 {
			s.limiter.Allow(t.Context(), other)
		}
		n, both := s.rule.table.Unspent(time.Now())
		if n != 2 || both <= units {
			t.Errorf("%d leases with %d units, want 2 with more than %d", n, both, units)
		}
		if d := s.allow(t, 1); d.Source != core.SourceLeased {
			t.Fatalf("%+v", d)
		}
		want(2, both-1)
		s.empty(t)
		want(1, both-units)
		time.Sleep(5 * time.Second)
		want(0, 0)
	})
}

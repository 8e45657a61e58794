//go:build !race && !short

package memstore_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// TestLogLongerThanTheStore: a client whose log does not fit goes on counting, with
// entries merged: it is never admitted above its limit, and hardly less often than
// an exact log would.
func TestLogLongerThanTheStore(t *testing.T) {
	for _, most := range []int64{1, 3} {
		s, c := newStore(memstore.MinMaxBytes)
		limit := core.PerHour(20_000)
		l := limiter(t, s, limit)
		twin := limiter(t, memstore.New(memstore.WithClock(c.Now)), limit)
		rng := rand.New(rand.NewPCG(uint64(most), 9))
		var admitted, exact int64
		var all []storetest.Outcome
		for range 120_000 {
			c.Add(time.Duration(1+rng.IntN(200_000)) * time.Microsecond)
			cost := 1 + rng.Int64N(most)
			if twin.AllowN(ctx, "k", cost).Allowed {
				exact += cost
			}
			d := l.AllowN(ctx, "k", cost)
			switch {
			case d.Err != nil:
				t.Fatal(d.Err)
			case d.Allowed:
				admitted += cost
				all = append(all, storetest.Outcome{At: d.At, Allowed: true, Cost: cost})
			}
			bounded(t, s, memstore.MinMaxBytes)
		}
		s.Audit(t)
		if err := storetest.CheckLogs(all, limit); err != nil {
			t.Fatalf("costs to %d: %v", most, err)
		}
		if admitted < exact*98/100 || admitted > exact {
			t.Errorf("costs to %d: %d units were admitted, by an exact log %d", most, admitted, exact)
		}
	}
}

// TestLongLogsMakeRoomForNobody: a client whose log grows beyond what is free takes
// no slot and no short log from others.
func TestLongLogsMakeRoomForNobody(t *testing.T) {
	for _, size := range []int{memstore.MinMaxBytes, small, large} {
		s, _ := newTickingStore(int64(size))
		login := limiter(t, s, core.Per(5, 15*time.Minute))
		big := core.Must(login.Rule("big", core.PerHour(1_000_000)))
		const clients = 50
		told := make([]time.Time, clients)
		for i := range clients {
			login.AllowN(ctx, key("client ", i), 4)
			d := login.AllowN(ctx, key("client ", i), 2)
			told[i] = d.At.Add(d.RetryAfter)
		}
		for i := range 100_000 {
			if d := big.Allow(ctx, key("big ", i%3)); !d.Allowed {
				t.Fatalf("%d, request %d: %+v", size, i, d)
			}
		}
		for i := range clients {
			d := login.AllowN(ctx, key("client ", i), 2)
			if got := d.At.Add(d.RetryAfter); d.Allowed || !got.Equal(told[i]) {
				t.Fatalf("%d: client %d is told to come at %v, before at %v", size, i, got, told[i])
			}
		}
		for i := range 3 {
			if d := big.AllowN(ctx, key("big ", i), 0); d.Remaining > 1_000_000-100_000/3 {
				t.Errorf("%d: log %d: %d remain", size, i, d.Remaining)
			}
		}
		s.Audit(t)
	}
}

// full returns a store in which clients take all the slots, and its clock.
func full(t *testing.T, size int) (*memstore.Store, *clock) {
	t.Helper()
	s, c := newStore(int64(size))
	l := core.Must(limiter(t, s, core.PerDay(1)).Rule("crowd", core.Per(1000, 25*time.Hour)))
	for range 2 { // with its second request a client gets a slot
		for i := range 2 * fits(size) {
			if d := l.Allow(ctx, key("crowd ", i)); !d.Allowed {
				t.Fatalf("client %d of the crowd: %+v", i, d)
			}
		}
	}
	return s, c
}

// TestFirstRequestInAFlood: what the sketch alone has counted is counted once, also
// where an epoch ends in the middle of a counter's window.
func TestFirstRequestInAFlood(t *testing.T) {
	const span = 1 << 39 // microseconds: an epoch of windows from 38 to 76 hours, but for the 28 with their own
	for _, a := range algorithms {
		s, c := full(t, memstore.MinMaxBytes)
		for i := range 28 {
			limiter(t, s, core.Per(3, time.Hour+time.Duration(i)*time.Second))
		}
		c.micros.Store((noon.UnixMicro()/span+1)*span + 1)
		l := limiter(t, s, core.Per(1000, 50*time.Hour).Using(a))
		crowd := core.Must(l.Rule("crowd", core.Per(1000, 25*time.Hour)))
		for i := range 6 * fits(memstore.MinMaxBytes) { // the second half to be a flood
			crowd.Allow(ctx, key("new key ", i))
		}
		for i := range int64(20) {
			d := l.Allow(ctx, "k")
			if a == core.Bucket && d.Remaining < 999-i { // its debt is rounded up, each time by less than a thousandth
				d.Remaining = max(d.Remaining, min(d.Remaining+1+i/2, 999-i))
			}
			if d.Remaining != 999-i {
				t.Fatalf("%v, request %d: %d remain, want %d", a, i, d.Remaining, 999-i)
			}
			if i%2 == 1 {
				s.EvictAll()
			}
		}
	}
}

// TestWhatCannotBeHeld: a rule with more limits than a shard has slots is the one
// thing for which a store is full; nothing is charged then.
func TestWhatCannotBeHeld(t *testing.T) {
	for _, c := range []struct {
		size, limits int
		fits         bool
	}{{memstore.MinMaxBytes, 60, true}, {memstore.MinMaxBytes, 200, true}, {large, 7000, false}} {
		s, _ := full(t, c.size)
		var limits []core.Limit
		for i := range c.limits {
			limits = append(limits, core.PerDay(2).Using(core.SlidingCounter).Named(key("limit ", i)))
		}
		l, one := limiter(t, s, limits...), limiter(t, s, limits[0])
		for n := range uint64(3) {
			d, left := l.Allow(ctx, "k"), one.AllowN(ctx, "k", 0).Remaining
			if got := s.Stats().Full; !c.fits && got != n+1 {
				t.Errorf("got %d times Full, want %d", got, n+1)
			}
			switch {
			case c.fits && d.Err != nil, !c.fits && !errors.Is(d.Err, core.ErrStoreFull):
				t.Errorf("%d limits in %d bytes: %+v", c.limits, c.size, d)
			case c.fits && left != d.Remaining, !c.fits && left != 2:
				t.Errorf("%d limits in %d bytes: %d remain of one, after %+v", c.limits, c.size, left, d)
			}
		}
		s.Audit(t)
	}
}

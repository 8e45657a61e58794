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
		if err := errors.Join(storetest.CheckLogs(all, limit), s.Audit()); err != nil {
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
		bounded(t, s, int64(size))
	}
}

package memstore_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestReturnAfterReset: a request from before a Reset takes back what was counted afterwards only in the same fixed
// window of a counter, the same slot of a coarse log and the same microsecond of a log, or from a bucket: as many units
// as it had.
func TestReturnAfterReset(t *testing.T) {
	slot := time.Minute // of an hour
	for _, c := range []struct {
		algorithm core.Algorithm
		later     time.Duration // the requests after the Reset, which comes when a slot and a window begin
		want      int64
	}{
		{core.SlidingLog, 0, 3}, {core.SlidingLog, time.Microsecond, 0},
		{core.CoarseLog, slot - time.Microsecond, 3}, {core.CoarseLog, slot, 0},
		{core.SlidingCounter, time.Hour - time.Microsecond, 3},
		{core.Bucket, 0, 3}, {core.Bucket, 12 * time.Minute, 3},
	} {
		store, clock := newStore(memstore.DefaultMaxBytes) // at noon
		l := limiter(t, store, core.PerHour(5).Using(c.algorithm))
		r := l.Reserve(ctx, core.Request{Key: "k", Cost: 3})
		if err := l.Reset(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Return(ctx, 1); n != 1 || err != nil {
			t.Errorf("%v: nothing counts, and %d of 1 count no more, %v", c.algorithm, n, err)
		}
		r = l.Reserve(ctx, core.Request{Key: "k", Cost: 3})
		if err := l.Reset(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		clock.Add(c.later)
		l.AllowN(ctx, "k", 5)
		if n, err := r.Return(ctx, 3); n != c.want || err != nil {
			t.Errorf("%v, %v later: %d given back, %v, want %d", c.algorithm, c.later, n, err, c.want)
		}
		if d := l.AllowN(ctx, "k", 0); d.Remaining != c.want {
			t.Errorf("%v, %v later: %d remain, want %d", c.algorithm, c.later, d.Remaining, c.want)
		}
	}
}

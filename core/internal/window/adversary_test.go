//go:build !race && !short

package window

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model/statespace"
)

// most returns the most units of one window when requests arrive, which a Count under a limit decides.
func most(l Limit, w int64, arrivals []statespace.Arrival) (most int64) {
	var c Count
	var admitted []int64
	for _, a := range arrivals {
		now := int64(1_790_000_000_000_000)/w*w + a.At
		for range a.N {
			if c.Decide(l, now, now, 1).Admitted {
				c.Prepare(l, now, 1)
				c.Add(l, now, 1)
				admitted = append(admitted, now)
			}
		}
		held := int64(0)
		for _, at := range admitted {
			if at > now-w {
				held++
			}
		}
		most = max(most, held)
	}
	return most
}

// TestAdversary searches the arrivals that make an algorithm admit most in a window. With a log that is never more than
// the limit, and with a counter or a bucket never more than twice as many. A window that is too short is found out.
func TestAdversary(t *testing.T) {
	tries, seeds := 3000, uint64(4)
	if *long {
		tries, seeds = 20_000, 20
	}
	const n, w = 20, 60_000
	worst := map[core.Algorithm]int64{}
	for seed := range seeds {
		for _, kind := range core.Algorithms() {
			score := func(length int64) func([]statespace.Arrival) int64 {
				return func(a []statespace.Arrival) int64 { return most(Limit{N: n, W: length, Algorithm: kind}, w, a) }
			}
			arrivals, got := statespace.Climb(seed, tries, 3*w, n, score(w))
			if bound := map[bool]int64{true: 2 * n, false: n}[!kind.CanLease()]; got > bound || got < n {
				t.Errorf("%v, seed %d: %d of %d in a window by %v", kind, seed, got, n, arrivals)
			}
			worst[kind] = max(worst[kind], got)
			if kind == core.Bucket { // TestBucketExact
				continue
			}
			if _, got := statespace.Climb(seed, tries, 3*w, n, score(w-w/60)); got <= n {
				t.Errorf("%v, seed %d: a window that is a sixtieth too short is not found out", kind, seed)
			}
		}
	}
	if worst[core.SlidingCounter] < 2*n-2 {
		t.Errorf("the worst that was found of a counter is %d, and %d is possible", worst[core.SlidingCounter], 2*n-1)
	}
	t.Logf("proved: limit %d, at most %d admitted in a window by a log, %d by a coarse log, %d by a counter, %d by a "+
		"bucket; seeds 0 to %d, %d tries each; a window a sixtieth too short was found out by the first three", n,
		worst[core.SlidingLog], worst[core.CoarseLog], worst[core.SlidingCounter], worst[core.Bucket], seeds-1, tries)
}

package window

import (
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestCoarseRing: a ring has room for the slots of a window and the one that it begins in. A single slot needs none.
func TestCoarseRing(t *testing.T) {
	l := Limit{N: 100, W: 6000, Algorithm: core.CoarseLog}
	var c Count
	for now, want := range map[int64]int{600_000: 0, 600_099: 0, 600_100: 61} {
		c = Count{}
		c.Add(l, 600_000, 1)
		if got := c.Prepare(l, now, 1); got != want {
			t.Errorf("a ring of %d words is asked for at %d, want %d", got, now, want)
		}
	}
}

// TestFull: charges bring a slot or a fixed window to maxCount, by which every limit refuses, and no further.
func TestFull(t *testing.T) {
	for kind, want := range map[core.Algorithm]int64{core.CoarseLog: 2 * maxCount, core.SlidingCounter: maxCount} {
		l := Limit{N: 5, W: 6000, Algorithm: kind}
		var c Count
		for _, now := range []int64{600_000, 600_000, 600_100} {
			c.Add(l, now, 7)
			c.Add(l, now, maxCount)
		}
		if got := c.Units(l, 600_100); got != want {
			t.Errorf("%v: %d units in two slots of a fixed window, want %d", kind, got, want)
		}
	}
}

// TestCoarseAhead: what is counted ahead of the clock may need more slots than a window has.
func TestCoarseAhead(t *testing.T) {
	l := Limit{N: 1000, W: 60_000, Algorithm: core.CoarseLog}
	const at, ahead = 600_000, 80_000
	var c Count
	for i := range int64(3) {
		c.Add(l, at+i*ahead, 1+i)
	}
	if v := c.Decide(l, at, at+2*ahead, 1); v.Remaining != 1000-1-2-3-1 {
		t.Errorf("%+v beside 6 units", v)
	}
	for i := range int64(3) {
		if got := c.Return(l, at+i*ahead, at, 4, 4); got != 1+i {
			t.Errorf("%d of %d units are found", got, 1+i)
		}
	}
}

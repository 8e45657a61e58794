package window

import (
	"math/rand/v2"
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestCoarseHistories runs random histories of a Count and of single units with rounded stamps.
func TestCoarseHistories(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 31))
		l := Limit{N: 1 + rng.Int64N(40), W: 1000 + rng.Int64N(9000), Algorithm: core.CoarseLog}
		var c Count
		var plain plainLog // its units have the ends of their slots
		now := int64(1_790_000_000_000_000)
		for step := range 300 {
			switch now += rng.Int64N(l.W / 20); rng.IntN(20) {
			case 0:
				now += rng.Int64N(2 * l.W)
			case 1:
				l.N = 1 + rng.Int64N(40)
			case 2:
				at := now - rng.Int64N(l.W)
				want, kept := int64(0), []int64(nil)
				for _, unit := range plain.units {
					if want < 2 && unit == l.SlotEnd(at) && unit > now-l.W {
						want++
					} else {
						kept = append(kept, unit)
					}
				}
				if c.Spent(l, now) || l.SlotEnd(at) <= now-l.W {
					want = 2
				}
				plain.units = kept
				if got := c.Return(l, at, now, 2); got != want {
					t.Fatalf("seed %d step %d: %d units of %d taken back, want %d", seed, step, got, at, want)
				}
			}
			cost := rng.Int64N(6)
			got, want := c.Decide(l, now, now, cost), plain.decide(l, now, cost, false)
			if want.Admitted && len(plain.live(now, l)) == 0 && cost > 0 {
				want.ResetAfter = l.SlotEnd(now) + l.W - now
			}
			if got != want {
				t.Fatalf("seed %d step %d: %+v at %d, cost %d:\n got %+v\nwant %+v", seed, step, l, now, cost, got, want)
			}
			if got.Admitted && cost > 0 {
				c.Prepare(l, now, cost)
				c.Add(l, now, cost)
				for range cost {
					plain.units = append(plain.units, l.SlotEnd(now))
				}
			}
		}
	}
}

// TestPastOfOneRequest: a request that a Past alone counts stands in the epoch in which a Count has it, so that a
// client of both has no units twice.
func TestPastOfOneRequest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 32))
	for _, kind := range []core.Algorithm{core.SlidingLog, core.SlidingCounter, core.CoarseLog} {
		for range 20_000 {
			l := Limit{N: 100, W: 1000 + rng.Int64N(5000), Algorithm: kind}
			begins := map[core.Algorithm]int64{ // at multiples of that
				core.SlidingLog: 1, core.SlidingCounter: l.W, core.CoarseLog: l.Slot(),
			}
			b := &Bound{l, l.Epoch()}
			if rng.IntN(2) == 0 {
				b.Span = 2*l.W + rng.Int64N(l.W)
			}
			end := b.End(1_000_000 + rng.Int64N(1000))
			counted := end + rng.Int64N(2*l.Slot()) - l.Slot() // about where an epoch ends
			now := counted + rng.Int64N(l.Slot())
			var c Count
			c.Add(l, counted, 3)
			var p Past
			p.Add(b, counted, 3)
			want := Past{Newer: 3}
			if b.Number(counted-counted%begins[kind]) != b.Number(counted) {
				want = Past{Older: 3}
			}
			if p != want {
				t.Fatalf("%v, counted at %d, an epoch ends at %d: %+v, want %+v", kind, counted, end, p, want)
			}
			if b.Number(now) != b.Number(counted) {
				continue // it is as of counted
			}
			if got := c.Past(b, now); got != p {
				t.Fatalf("%v, counted at %d, an epoch ends at %d: %+v in a Count, %+v in a Past", kind, counted, end, got, p)
			}
		}
	}
}

// TestSlots: a window has 60 slots, aligned to the Unix epoch, the last of which may be shorter.
func TestSlots(t *testing.T) {
	for w, want := range map[int64]int64{60: 1, 61: 2, 119: 2, 120: 2, 121: 3, 60_000_000: 1_000_000} {
		l := Limit{W: w, Algorithm: core.CoarseLog}
		if got := l.Slot(); got != want {
			t.Errorf("a slot of %d microseconds is %d, want %d", w, got, want)
		}
		begin := 1_000_000 * want
		last := begin + want - 1
		for at, end := range map[int64]int64{begin - 1: begin - 1, begin: last, last: last} {
			if got := l.SlotEnd(at); got != end {
				t.Errorf("slots of %d: the one of %d ends at %d, want %d", want, at, got, end)
			}
		}
	}
}

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

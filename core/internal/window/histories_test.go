//go:build !race && !short

package window

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model/statespace"
)

// TestHistories: in random histories, with costs, with clocks that step back, with limits that are raised and lowered,
// and with units that are given back, each answer is that of the definition, and each unit that counts is in its epoch.
func TestHistories(t *testing.T) {
	for _, kind := range core.Algorithms() {
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 1))
			most := int64(40)
			if kind == core.Bucket { // the definition divides by no more
				most = 16
			}
			w := newWorld(Limit{N: 1 + rng.Int64N(most), W: 1000 + rng.Int64N(9000), Algorithm: kind})
			if kind == core.SlidingCounter {
				w.W = 1 << (10 + seed%4) // by which a double divides without a rest
				w.rule.Limits[0].W = w.W
			}
			w.rule.AllowedLead = math.MaxInt64
			s := counted{now: 1_790_000_000_000_000, client: make(statespace.Client, 1)}
			for step := range 300 {
				if rng.IntN(20) == 0 {
					w.N = 1 + rng.Int64N(most)
					if kind == core.Bucket {
						w.W = 1000 + rng.Int64N(9000)
					}
					w.rule.Limits[0].N, w.rule.Limits[0].W = w.N, w.W
				}
				var err error
				if s, err = w.random(s, rng, seed%2 == 0); err != nil {
					t.Fatalf("%v, seed %d, step %d, %+v: %v", kind, seed, step, w.Limit, err)
				}
				if kind == core.SlidingLog {
					s.count.log.audit(t)
				}
				w.checkEvicted(t, s, w.W*(2+rng.Int64N(9))/2)
			}
		}
	}
}

// random takes a step. It costs 1, or anything.
func (w *world) random(s counted, rng *rand.Rand, any bool) (counted, error) {
	cost, verb := int64(1), statespace.Take
	if any {
		cost = rng.Int64N(min(w.N, 9) + 2)
	}
	switch rng.IntN(20) {
	case 0:
		s.now -= rng.Int64N(2 * w.W)
	case 1:
		s.now += rng.Int64N(3 * w.W)
	case 2:
		s.now -= w.W/LeadPart + rng.Int64N(3) - 1 // about as far as is let pass
	case 3:
		cost = math.MaxInt64 >> rng.IntN(4)
	case 4, 5, 6:
		verb = statespace.Peek
	case 7, 8:
		at, units := s.now+w.W/8-rng.Int64N(2*w.W), 1+rng.Int64N(w.N+3)
		cost = units + rng.Int64N(2)
		if past := s.client[0]; len(past) > 0 && rng.IntN(4) > 0 {
			u := past[rng.IntN(len(past))]
			if at = u.At; w.Algorithm == core.Bucket && u.N > 0 {
				cost, units = u.N, 1+rng.Int64N(u.N)
			}
		}
		return w.giveBack(s, at, cost, units)
	default:
		s.now += rng.Int64N(w.W / 10)
	}
	return w.ask(s, cost, verb)
}

// checkEvicted compares the EvictedCount of a Count, by epochs of a span, with the units that count: each is in the
// epoch of its time, of its slot, or of its fixed window.
func (w *world) checkEvicted(t *testing.T, s counted, span int64) {
	t.Helper()
	b, now := &Bound{w.Limit, max(span, w.Epoch())}, max(s.now, s.count.MinStamp(w.Limit))
	var one Count
	var alone EvictedCount // a client of both has no units twice
	one.Add(w.Limit, now, 3)
	if alone.Add(b, now, 3); alone != one.Summarize(b, now) {
		t.Fatalf("%v at %d, epochs of %d: %+v of a Count, %+v added", w.Limit, now, span, one.Summarize(b, now), alone)
	}
	if w.Algorithm == core.Bucket { // TestBucketEvicted
		return
	}
	var want EvictedCount
	for _, u := range s.client[0] {
		begin := u.At - u.At%map[core.Algorithm]int64{
			core.SlidingLog: 1, core.SlidingCounter: w.W, core.CoarseLog: w.Slot(),
		}[w.Algorithm]
		switch counts := map[core.Algorithm]bool{
			core.SlidingLog: u.At > now-w.W, core.SlidingCounter: u.At/w.W >= now/w.W-1,
			core.CoarseLog: w.SlotEnd(u.At) > now-w.W,
		}[w.Algorithm]; {
		case counts && begin/b.Span == now/b.Span:
			want.Newer += u.N
		case counts:
			want.Older += u.N
		}
	}
	if got := s.count.Summarize(b, now); got != want {
		t.Fatalf("%v at %d, epochs of %d, of %v: evicted %+v, want %+v", w.Limit, now, span, s.client, got, want)
	}
}

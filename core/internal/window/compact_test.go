//go:build !race && !short

package window

import (
	"math/rand/v2"
	"testing"
)

// TestCompact holds a log that is coarsened now and then against one that is not:
// it counts as much or more at any time, never less, and its ring is shorter.
func TestCompact(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 5))
		limit := Limit{N: 1 << 30, W: 100_000}
		var log, exact Log
		now := int64(1_790_000_000_000_000)
		coarsened := 0
		for range 3000 {
			now += rng.Int64N(200) - 20
			cost := int64(1)
			if seed%2 == 0 {
				cost += rng.Int64N(3)
			}
			stamp := max(now, exact.minStamp(limit))
			for _, l := range []*Log{&log, &exact} {
				l.Expire(now - limit.W)
				l.Push(stamp, cost)
			}
			if words := log.Words(); words > 300 || rng.IntN(500) == 0 {
				before := log.entries
				if log.compact(); log.entries < before {
					coarsened++
					if log.Words() > words*7/8 {
						t.Fatalf("seed %d: %d words became %d", seed, words, log.Words())
					}
				}
			}
			log.audit(t)
			for range 3 {
				at := now - rng.Int64N(limit.W)
				got, want := log.Since(at), exact.Since(at)
				if got < want || got > want+exact.Since(now-limit.W)/3+2 {
					t.Fatalf("seed %d: %d units since %d, want %d or some more", seed, got, at, want)
				}
			}
			if got, want := log.Since(now-limit.W), exact.Since(now-limit.W); got < want {
				t.Fatalf("seed %d: %d units in the window, want %d at least", seed, got, want)
			}
		}
		if coarsened < 5 {
			t.Errorf("seed %d: coarsened %d times", seed, coarsened)
		}
	}
}

// TestCoarsenFewEntries: a ring of few entries would hardly become shorter.
func TestCoarsenFewEntries(t *testing.T) {
	var log Log
	for i := range int64(minCompacted - 1) {
		log.Push(i, 1)
	}
	before := log
	if log.compact(); log != before {
		t.Errorf("a log of %d entries became %+v", log.entries, log)
	}
	log.Push(minCompacted, 1)
	if log.compact(); log.entries >= minCompacted {
		t.Errorf("a log of %d entries is not coarsened", minCompacted)
	}
}

// TestCoarsenEvenly: equal entries are merged in eights, and pairs, of which the ring is to lose half as many, in
// fours.
func TestCoarsenEvenly(t *testing.T) {
	for cost, want := range map[int64]uint32{1: 8, 2: 16} {
		var log Log
		for i := range int64(64) {
			log.Push(i, cost)
		}
		copied := log
		if copied.compact(); copied.entries != want {
			t.Errorf("of 64 entries of %d units %d are left, want %d", cost, copied.entries, want)
		}
		if n := testing.AllocsPerRun(10, func() { copied = log; copied.compact() }); n != 1 {
			t.Errorf("%v allocations, want a ring", n)
		}
	}
}

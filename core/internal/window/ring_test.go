package window

import (
	"runtime"
	"slices"
	"testing"
)

// TestRingIsItsSlice: a ring is the slice that it was made of, of every length, while
// it moves, is copied, and the collector frees what no pointer leads to. With -race,
// checkptr looks at every slice that ring returns: it ends the test if one is longer
// than the memory of its pointer.
func TestRingIsItsSlice(t *testing.T) {
	for n := range 300 {
		var log Log
		made := make([]int64, n)
		for i := range made {
			made[i] = int64(n*1000 + i)
		}
		log.setRing(slices.Clone(made))
		copied := log.Clone()
		runtime.GC()
		if got := log.ring(); !slices.Equal(got, made) || log.Words() != n {
			t.Fatalf("a ring of %d words is %d", made, got)
		}
		clear(log.ring())
		if got := copied.ring(); !slices.Equal(got, made) {
			t.Fatalf("the copy of a ring of %d is %d", made, got)
		}
	}
}

// TestRingMoves pushes entries of one unit and of several, so that the ring grows and
// becomes one of pairs, and expires them, so that it shrinks, to the last word.
func TestRingMoves(t *testing.T) {
	for _, cost := range []int64{1, 2} {
		var log Log
		for i := range int64(2000) {
			log.Push(i, cost)
			log.audit(t)
			if i%100 == 0 {
				runtime.GC()
			}
		}
		if words := log.Words(); words > int(2000*cost)*5/4 {
			t.Errorf("a ring of %d words for 2000 entries of %d units", words, cost)
		}
		for i := range int64(2000) {
			log.trim(Limit{W: 2}, i+2)
			log.audit(t)
			if left := 2000 - i - 1; log.Since(0) != left*cost && left < 2000 {
				t.Fatalf("%d units are left, want %d", log.Since(0), left*cost)
			}
		}
		if words := log.Words(); words > 2*smallRing {
			t.Errorf("an empty ring has %d words", words)
		}
	}
}

// TestWords: a ring has room for an eighth more entries, or three. Of pairs it has a word besides.
func TestWords(t *testing.T) {
	for entries, want := range map[uint32]int{0: 3, 24: 27, 31: 34, 32: 36, 800: 900} {
		if single, pairs := words(entries, false), words(entries, true); single != want || pairs != 2*want+1 {
			t.Errorf("%d words for %d entries, and %d for as many pairs", single, entries, pairs)
		}
	}
}

// filled returns a log with that many entries, one each microsecond from first on.
func filled(first int64, entries uint32) (l Log) {
	for i := range int64(entries) {
		l.Push(first+i, 1)
	}
	return l
}

// TestShrink: a ring becomes shorter when less than a quarter of it is used.
func TestShrink(t *testing.T) {
	log := filled(0, 1000)
	before, quarter := log.Words(), int64(log.capacity()/4)
	for _, left := range []int64{quarter, quarter - 1} {
		if log.trim(Limit{W: 2}, 1000-left+1); (log.Words() < before) != (left < quarter) || log.Words() < int(left) {
			t.Errorf("%d entries are left of a ring of %d words: %d words", left, before, log.Words())
		}
	}
}

// TestTrim: a ring with hardly an entry becomes shorter unless its oldest is of the newer half of the window: it may be
// about to fill again.
func TestTrim(t *testing.T) {
	const w = 100_000
	for age, want := range map[int64]bool{w / 2: true, w/2 - 1: false} {
		log := filled(1_000_000, 1000)
		before, now := log.Words(), log.last+age
		log.Expire(log.last - 1)
		if log.trim(Limit{W: w}, now); (log.Words() < before) != want {
			t.Errorf("the oldest entry is %d old: %d words became %d", age, before, log.Words())
		}
	}
}

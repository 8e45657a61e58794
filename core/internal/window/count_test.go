package window

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/sashlimit/sash/core"
)

// TestCountSize: a slot of the store in memory has 64 bytes, 40 for the Count. A
// counter of any numbers comes out of it as it went in.
func TestCountSize(t *testing.T) {
	if size := unsafe.Sizeof(Count{}); size != 40 {
		t.Errorf("a Count takes %d bytes, want 40", size)
	}
	for _, n := range []int64{0, 1, -1, 1<<32 - 1, 1 << 32, 1<<32 + 5, 1 << 40, math.MaxInt64, math.MinInt64} {
		for _, want := range []Counter{{n, 1, 2}, {1, n, 2}, {1, 2, n}} {
			var c counter
			if c.set(want); c.counter() != want || c.words != 0 {
				t.Errorf("%+v became %+v and a ring of %d words", want, c.counter(), c.words)
			}
		}
	}
}

// TestUnknownAlgorithm: a Count of an algorithm that there is not is not taken for another.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := core.Algorithm(len(core.Algorithms()))
	defer func() {
		if recover() == nil || Known(unknown) || !Known(unknown-1) {
			t.Error("an unknown algorithm decides, or what is known is wrong")
		}
	}()
	new(Count).Decide(Limit{N: 1, W: 1000, Algorithm: unknown}, 1, 1, 1)
}

// TestSpent: something is left of a Count until its newest unit counts no more, and nothing once that is taken back.
func TestSpent(t *testing.T) {
	for kind, until := range map[core.Algorithm]int64{
		core.SlidingLog: 6010, core.SlidingCounter: 12_000, core.CoarseLog: 6099, core.Bucket: 1210,
	} {
		l := Limit{N: 10, W: 6000, Algorithm: kind}
		var c Count
		c.Add(l, 10, 2)
		for now, want := range map[int64]bool{until - 1: false, until: true} {
			if got := c.IsEmpty(l, now); got != want {
				t.Errorf("%v: spent at %d: %v, want %v", kind, now, got, want)
			}
		}
		if n := c.Return(l, 10, 20, 2, 2); n != 2 || c.Prepare(l, 200, 1) != 0 || !c.IsEmpty(l, 6000) {
			t.Errorf("%v: %d of 2 units taken back, and %+v is left", kind, n, c)
		}
	}
}

// filledCount returns a Count with a unit each millisecond.
func filledCount(l Limit, first int64, units int64) (c Count) {
	for now := first; now < first+1000*units; now += 1000 {
		c.Prepare(l, now, 1)
		c.Add(l, now, 1)
	}
	return c
}

// TestShorterRing: a ring of which hardly anything counts becomes shorter, unless it is not worth an allocation. A log
// that is coarsened becomes shorter as well.
func TestShorterRing(t *testing.T) {
	const first, w = 600_000, 60_000
	for _, kind := range core.Algorithms() {
		l := Limit{N: 1000, W: w, Algorithm: kind}
		c := filledCount(l, first, 60)
		words := c.Words()
		if c.Compact(l); (c.Words() < words) != (kind == core.SlidingLog) {
			t.Errorf("%v: %d words became %d", kind, words, c.Words())
		}
		c = filledCount(l, first, 60)
		if c.Trim(l, first+59_000+w-500); kind == core.CoarseLog && c.Words() != words {
			t.Errorf("two slots count, and %d words became %d", words, c.Words())
		}
		if c.Trim(l, first+59_000+w-1); c.Words() > smallRing || !c.IsEmpty(l, first+61_000+w) {
			t.Errorf("%v: a unit counts, and %d words became %d", kind, words, c.Words())
		}
	}
	l := Limit{N: 1000, W: w}
	c := filledCount(l, first, 5)
	if before := c; before.Words() == 0 || before.Words() > smallRing {
		t.Fatalf("a ring of %d words, want one of up to %d", before.Words(), smallRing)
	} else if c.Trim(l, first+4000+w-1); c != before {
		t.Errorf("%+v became %+v", before, c)
	}
}

// TestRingIsUsedAgain: a Count that goes on as before needs no more memory.
func TestRingIsUsedAgain(t *testing.T) {
	for _, kind := range core.Algorithms() {
		l, now := Limit{N: 1000, W: 60_000, Algorithm: kind}, int64(600_000)
		c := filledCount(l, now, 200)
		now += 200_000
		if n := testing.AllocsPerRun(1000, func() {
			if words := c.Prepare(l, now, 1); words != 0 {
				t.Errorf("%v: a ring of %d words is asked for, there is one of %d", kind, words, c.Words())
			}
			c.Add(l, now, 1)
			now += 1000
		}); n != 0 {
			t.Errorf("%v: %v allocations of a request", kind, n)
		}
	}
}

// TestEveryKind runs random histories of one client by each kind, and holds what a
// store does with a Count, beside counting, against the Count as it was.
func TestEveryKind(t *testing.T) {
	for _, kind := range core.Algorithms() {
		t.Run(kind.String(), func(t *testing.T) {
			for seed := range uint64(300) {
				rng := rand.New(rand.NewPCG(seed, 11))
				w := 1000 + rng.Int64N(5000)
				l := Limit{N: 1 + rng.Int64N(60), W: w, Algorithm: kind}
				b := &Bound{l, l.Epoch() * (1 + rng.Int64N(2))}
				var c Count
				now := int64(1_790_000_000_000_000)
				for range 100 {
					now += rng.Int64N(w / 4)
					if rng.IntN(20) == 0 {
						now += rng.Int64N(2 * w)
					}
					cost := 1 + rng.Int64N(3)*rng.Int64N(2)
					checkCount(t, &c, b, now, cost)
				}
			}
		})
	}
}

// checkCount decides a request of the given cost, counts it if it is admitted, and
// checks the other methods of c.
func checkCount(t *testing.T, c *Count, b *Bound, now, cost int64) {
	t.Helper()
	v := c.Decide(b.Limit, now, now, cost)
	taken := c.Clone()
	got, lacks := taken.Take(b.Limit, now, cost)
	if got != v || lacks > 0 && !v.Admitted {
		t.Fatalf("taken: %+v and %d words, decided: %+v", got, lacks, v)
	}
	later := now + b.W/3
	refused, idle := c.Clone(), c.Clone()
	idle.Take(b.Limit, now, 0)
	want := c.Decide(b.Limit, later, later, 1)
	if refused.Take(b.Limit, now, b.N+1); refused.Decide(b.Limit, later, later, 1) != want ||
		idle.Decide(b.Limit, later, later, 1) != want {
		t.Fatalf("%+v after a refusal, %+v after a request of cost 0, it was %+v", refused, idle, c)
	}
	copied := c.Clone()
	copied.Trim(b.Limit, now)
	copied.Compact(b.Limit)
	if got := copied.Decide(b.Limit, now, now, cost); got.Admitted && !v.Admitted || got.Remaining > v.Remaining {
		t.Fatalf("trimmed and coarsened: %+v, before %+v", got, v)
	}
	if !v.Admitted {
		checkRefused(t, c, b, now, cost)
		return
	}
	words := c.Prepare(b.Limit, now, cost)
	if lacks != words {
		t.Fatalf("a ring of %d words is asked for where it is taken, else of %d", lacks, words)
	}
	if words == 0 {
		words = c.Words()
	} else if words < c.Words() {
		t.Fatalf("a ring of %d words is asked for, there is one of %d", words, c.Words())
	}
	c.Add(b.Limit, now, cost)
	if c.Words() < words || c.Words() > words+words/4+2 {
		t.Fatalf("a ring of %d words, foreseen were %d", c.Words(), words)
	}
	if lacks == 0 && taken.Decide(b.Limit, later, later, 1) != c.Decide(b.Limit, later, later, 1) {
		t.Fatalf("%+v after it was taken, want %+v", taken, c)
	}
	if c.IsEmpty(b.Limit, now) || c.Units(b.Limit, now) < cost {
		t.Fatalf("after %d units at %d: %+v", cost, now, c)
	}
	if !c.IsEmpty(b.Limit, now+3*b.W) {
		t.Fatalf("three windows after the last unit: %+v", c)
	}
}

// checkRefused checks a Count by which a request is refused: it is admitted at the time
// that it is told and no sooner, and what remains of the Count as an EvictedCount refuses too.
func checkRefused(t *testing.T, c *Count, b *Bound, now, cost int64) {
	t.Helper()
	if cost > b.N {
		return
	}
	admits := func(c *Count, now int64) bool { return c.Decide(b.Limit, now, now, cost).Admitted }
	exact := c.Decide(b.Limit, now, now, cost)
	then := now + exact.RetryAfter
	if admits(c, then-1) || !admits(c, then) {
		t.Fatalf("cost %d at %d: told to come at %d, which is not exact", cost, now, then)
	}
	past := c.Summarize(b, now)
	v := past.Decide(b, now, cost)
	retry, reset := v.RetryAfter-exact.RetryAfter, v.ResetAfter-exact.ResetAfter
	late := b.Span == b.Epoch() && max(retry, reset) > b.Span
	if past.IsZero() || v.Admitted || min(retry, reset) < 0 || late {
		t.Fatalf("the evicted count %+v by %+v says %+v, the count %+v", past, b, v, exact)
	}
	var back Count
	back.Restore(b, past, now)
	if got, want := back.Summarize(b, now), past.unexpired(b, now); b.Algorithm == core.SlidingLog && got != want {
		t.Fatalf("restored from %+v: %+v, want %+v", past, got, want)
	}
	if admits(&back, now) || admits(&back, then-1) {
		t.Fatalf("restored from %+v: admitted before %d", past, then)
	}
	back.Add(b.Limit, now, 3)
	if words := past.Words(b.Algorithm, 3); back.Words() > words+words/4+2 {
		t.Fatalf("restored and charged: a ring of %d words, foreseen were %d", back.Words(), words)
	}
}

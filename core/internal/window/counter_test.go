package window

import (
	"math/rand/v2"
	"testing"
)

// decide runs one request through a Counter as a store does.
func (c *Counter) decide(l Limit, now, cost int64, charge bool) Verdict {
	from := *c
	if from.Start(l.W)-now > Allowance(l.W) {
		if from = from.Rewind(now, l.W); charge && cost > 0 {
			*c = from
		}
	}
	stamp := max(now, from.Start(l.W))
	at := from.At(stamp, l.W)
	v := at.Decide(l, now, stamp, cost)
	if v.Admitted && charge && cost > 0 {
		at.Cur += cost
		*c = at
	}
	return v
}

// TestCounterGolden holds the vectors that the algorithm was described with.
func TestCounterGolden(t *testing.T) {
	const w = 60_000_000
	limit := Limit{N: 100, W: w}
	start := int64(w) * 29_000_000
	quarter := start + w/4
	for _, test := range []struct {
		name                    string
		counter                 Counter
		at                      int64
		counted                 int64
		admitted                bool
		remaining, reset, retry int64
	}{
		{"prev 80 at 25 % with 30", Counter{29_000_000, 80, 30}, quarter, 90, true, 9, 45_000_000, 0},
		// 59.25 would do, floor(80*(1-e)) <= 58: 1-e < 59/80.
		{"prev 80 at 25 % with 41", Counter{29_000_000, 80, 41}, quarter, 101, false, 0, 45_000_000, 750_001},
		{"weight 0.667 at 20 s of 60", Counter{29_000_000, 3, 0}, start + 20_000_000, 2, true, 97, 40_000_000, 0},
		{"one window later", Counter{28_999_999, 7, 80}, quarter, 60, true, 39, 45_000_000, 0},
		{"two windows later", Counter{28_999_998, 7, 80}, quarter, 0, true, 99, 45_000_000, 0},
		{"nothing", Counter{}, quarter, 0, true, 99, 45_000_000, 0},
	} {
		c := test.counter
		if got := c.At(test.at, w).Counted(test.at, w); got != test.counted {
			t.Errorf("%s: counted %d, want %d", test.name, got, test.counted)
		}
		want := Verdict{test.admitted, test.remaining, test.reset, test.retry}
		if got := c.decide(limit, test.at, 1, true); got != want {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
	}
}

// TestCounterRetryAfterIsExact checks RetryAfter by trying that moment and the
// microsecond before, for random states up to the largest.
func TestCounterRetryAfterIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	refused := 0
	for range 200_000 {
		l := Limit{N: 1 + rng.Int64N(1<<uint(1+rng.IntN(40))), W: 1000 + rng.Int64N(1<<uint(1+rng.IntN(44)))}
		now := int64(1_790_000_000_000_000) + rng.Int64N(l.W)
		// Counts above the limit are what a lowered limit leaves.
		c := Counter{Index: now / l.W, Prev: rng.Int64N(2*l.N + 1), Cur: rng.Int64N(l.N + 1)}
		if rng.IntN(4) == 0 {
			c.Cur += rng.Int64N(l.N)
		}
		cost := 1 + rng.Int64N(l.N)
		v := c.Decide(l, now, now, cost)
		if v.Admitted {
			if v.RetryAfter != 0 {
				t.Fatalf("%+v %+v: admitted, RetryAfter %d", l, c, v.RetryAfter)
			}
			continue
		}
		refused++
		if v.RetryAfter <= 0 || v.RetryAfter > 2*l.W {
			t.Fatalf("%+v %+v cost %d: RetryAfter %d", l, c, cost, v.RetryAfter)
		}
		then := now + v.RetryAfter
		if c.At(then-1, l.W).Decide(l, then-1, then-1, cost).Admitted {
			t.Fatalf("%+v %+v cost %d: admitted before %d", l, c, cost, v.RetryAfter)
		}
		if !c.At(then, l.W).Decide(l, then, then, cost).Admitted {
			t.Fatalf("%+v %+v cost %d: refused at %d", l, c, cost, v.RetryAfter)
		}
		later := then + rng.Int64N(3*l.W)
		if !c.At(later, l.W).Decide(l, later, later, cost).Admitted {
			t.Fatalf("%+v %+v cost %d: admitted at %d, refused at %d", l, c, cost, v.RetryAfter, later-now)
		}
	}
	if refused < 10_000 {
		t.Fatalf("only %d refusals were tried", refused)
	}
}

// TestCounterClockStepsBack: a request that is late by no more than the allowance never
// wipes a newer window.
func TestCounterClockStepsBack(t *testing.T) {
	l := Limit{N: 2, W: 1000}
	var c Counter
	c.decide(l, 5000, 1, true)
	if v := c.decide(l, 4999, 1, true); !v.Admitted || v.Remaining != 0 || v.ResetAfter != 1001 {
		t.Errorf("late by 1: %+v", v)
	}
	if v := c.decide(l, 4900, 1, true); v.Admitted || c != (Counter{5, 0, 2}) {
		t.Errorf("late by a tenth of a window: %+v, then %+v", v, c)
	}
	// In window 6 the two of window 5 must fall below 1: just after its middle... of weight.
	v := c.decide(l, 4900, 1, true)
	then := 4900 + v.RetryAfter
	if c.At(then-1, l.W).Decide(l, then-1, then-1, 1).Admitted || !c.At(then, l.W).Decide(l, then, then, 1).Admitted {
		t.Errorf("RetryAfter %d from a clock that stepped back is not exact", v.RetryAfter)
	}
}

// TestCounterRewind: what was counted in a window that began too far ahead counts in the
// current one, by the clock that is right.
func TestCounterRewind(t *testing.T) {
	for _, n := range []int64{2, 1 << 40} {
		l := Limit{N: n, W: 1000}
		for _, late := range []int64{126, 1000, 4000} {
			c := Counter{5, n - 1, n}
			now := 5000 - late
			rewound := Counter{now / l.W, 0, min(2*n-1, 1<<40)}
			if v := c.decide(l, now, 1, false); v.Admitted || c != (Counter{5, n - 1, n}) {
				t.Errorf("a look %d late: %+v, then %+v", late, v, c)
			}
			v := c.decide(l, now, 1, true)
			if v.Admitted || c != rewound || v.RetryAfter > 2*l.W {
				t.Errorf("late by %d: %+v, then %+v, want %+v", late, v, c, rewound)
			}
			then := now + v.RetryAfter
			if c.decide(l, then-1, 1, false).Admitted || !c.decide(l, then, 1, false).Admitted {
				t.Errorf("late by %d: RetryAfter %d is not exact", late, v.RetryAfter)
			}
		}
	}
}

// TestCounterTwiceTheLimit pins what the doc comment of SlidingCounter warns
// of, so that nobody takes the counter for exact.
func TestCounterTwiceTheLimit(t *testing.T) {
	l := Limit{N: 1, W: 1_000_000}
	var c Counter
	first := c.decide(l, 999_999, 1, true)
	second := c.decide(l, 1_000_001, 1, true)
	if !first.Admitted || !second.Admitted {
		t.Errorf("two requests 2 us apart: %v, %v", first, second)
	}
}

func TestCounterNeverAndZero(t *testing.T) {
	l := Limit{N: 10, W: 1000}
	c := Counter{Index: 5, Cur: 12}
	if v := c.Decide(l, 5100, 5100, 11); v.RetryAfter != Never || v.Admitted {
		t.Errorf("cost above the limit: %+v", v)
	}
	if v := c.Decide(l, 5100, 5100, 0); !v.Admitted || v.Remaining != 0 || v.ResetAfter != 900 {
		t.Errorf("cost 0 on an exhausted counter: %+v", v)
	}
	if v := (Counter{}).Decide(l, 5100, 5100, 0); !v.Admitted || v.Remaining != 10 || v.ResetAfter != 0 {
		t.Errorf("cost 0 on nothing: %+v", v)
	}
}

func FuzzCounterRetryAfter(f *testing.F) {
	f.Add(int64(100), int64(60_000_000), int64(80), int64(41), int64(15_000_000), int64(1))
	f.Add(int64(1), int64(1000), int64(2), int64(0), int64(0), int64(1))
	f.Add(int64(1)<<40, int64(31_622_400_000_000), int64(1)<<40, int64(1)<<39, int64(12345), int64(1)<<38)
	f.Fuzz(func(t *testing.T, n, w, prev, cur, e, cost int64) {
		between := func(low, v, high int64) bool { return low <= v && v <= high }
		if !between(1, n, 1<<40) || !between(1000, w, 31_622_400_000_000) || !between(0, e, w-1) ||
			!between(0, prev, 1<<40) || !between(0, cur, 1<<40) || !between(1, cost, n) {
			return
		}
		l := Limit{N: n, W: w}
		c := Counter{Index: 1_790_000_000_000_000 / w, Prev: prev, Cur: cur}
		now := c.Start(w) + e
		v := c.Decide(l, now, now, cost)
		if v.Admitted != (v.RetryAfter == 0) || v.Remaining < 0 || v.RetryAfter < 0 {
			t.Fatalf("%+v", v)
		}
		if v.Admitted {
			return
		}
		then := now + v.RetryAfter
		if c.At(then-1, w).Decide(l, then-1, then-1, cost).Admitted || !c.At(then, w).Decide(l, then, then, cost).Admitted {
			t.Fatalf("RetryAfter %d is not exact", v.RetryAfter)
		}
	})
}

package window

import (
	"math/rand/v2"
	"testing"
)

// decide runs one request through a Counter as a store does.
func (c *Counter) decide(l Limit, now, cost int64, charge bool) Verdict {
	stamp := max(now, c.Start(l.W))
	at := c.At(stamp, l.W)
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
		if got := c.At(test.at, w).Estimate(test.at, w); got != test.counted {
			t.Errorf("%s: counted %d, want %d", test.name, got, test.counted)
		}
		want := Verdict{test.admitted, test.remaining, test.reset, test.retry}
		if got := c.decide(limit, test.at, 1, true); got != want {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
	}
}

// checkCounterRetry checks the RetryAfter of a request by trying that moment and the
// microsecond before. It reports whether the request was refused.
func checkCounterRetry(t *testing.T, l Limit, c Counter, now, cost int64) (refused bool) {
	t.Helper()
	admits := func(at int64) bool { return c.At(at, l.W).Decide(l, at, at, cost).Admitted }
	v := c.Decide(l, now, now, cost)
	if v.Admitted != (v.RetryAfter == 0) || v.Remaining < 0 || v.RetryAfter < 0 || v.RetryAfter > 2*l.W {
		t.Fatalf("%+v %+v, cost %d: got %+v", l, c, cost, v)
	}
	if then := now + v.RetryAfter; !v.Admitted && (admits(then-1) || !admits(then) || !admits(then+l.W)) {
		t.Fatalf("%+v %+v, cost %d: RetryAfter is %d, want the first moment that admits", l, c, cost, v.RetryAfter)
	}
	return !v.Admitted
}

// TestCounterRetryAfterIsExact tries random states, up to the largest.
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
		if checkCounterRetry(t, l, c, now, 1+rng.Int64N(l.N)) {
			refused++
		}
	}
	if refused < 10_000 {
		t.Fatalf("got %d refusals, want 10,000 at least", refused)
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
		c := Counter{Index: 1_790_000_000_000_000 / w, Prev: prev, Cur: cur}
		checkCounterRetry(t, Limit{N: n, W: w}, c, c.Start(w)+e, cost)
	})
}

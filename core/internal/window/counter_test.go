package window

import (
	"math/rand/v2"
	"testing"
)

// TestCounterRetryAfterIsExact tries random states, up to the largest: the microsecond before RetryAfter refuses.
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
		admits := func(at int64) bool { return c.At(at, l.W).Decide(l, at, at, cost).Admitted }
		if then := now + v.RetryAfter; v.Admitted != (then == now) || v.Remaining < 0 || v.RetryAfter > 2*l.W ||
			!admits(then) || !v.Admitted && (admits(then-1) || !admits(then+l.W)) {
			t.Fatalf("%+v %+v, cost %d: got %+v", l, c, cost, v)
		}
		if !v.Admitted {
			refused++
		}
	}
	if refused < 10_000 {
		t.Fatalf("got %d refusals, want 10,000 at least", refused)
	}
}

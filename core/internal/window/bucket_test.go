//go:build !race && !short

package window

import (
	"math/big"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model/statespace"
)

// border returns a number from 1 to most, often one at an end or beside a power of two.
func border(rng *rand.Rand, most int64) int64 {
	switch rng.IntN(4) {
	case 0:
		return most - rng.Int64N(min(3, most))
	case 1:
		return 1 + rng.Int64N(min(3, most))
	case 2:
		return min(most, max(1, int64(1)<<rng.IntN(46)+rng.Int64N(3)-1))
	}
	return 1 + rng.Int64N(most)
}

// exact is a Bucket by rational numbers: the units that are used at a time.
type exact struct {
	used     *big.Rat
	at, rate int64
}

func (e *exact) on(t, w int64) *big.Rat {
	back := new(big.Rat).Mul(big.NewRat(max(0, t-e.at), w), new(big.Rat).SetInt64(e.rate))
	left := new(big.Rat).Sub(e.used, back)
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left
}

// ceil returns the least whole number that is not below r.
func ceil(r *big.Rat) int64 {
	n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return n.Div(n, r.Denom()).Int64()
}

// TestBucketExact: by any limit and window, and after any time, a bucket is what rational numbers say, to the last
// part of a unit: what remains, the microsecond at which a request passes, and the one at which all is back.
func TestBucketExact(t *testing.T) {
	refused, debts := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 43))
		l := Limit{N: border(rng, core.MaxCounterRequests), W: max(1000, border(rng, core.MaxWindow.Microseconds()))}
		l.Algorithm = core.Bucket
		var c Count
		now := int64(1_790_000_000_000_000)
		plain := exact{new(big.Rat), now, 1}
		for range 40 {
			switch pace := rng.IntN(4); pace {
			case 0:
			case 1:
				now += rng.Int64N(l.W)
			default:
				now += rng.Int64N(min(l.W, 2+l.W/l.N))
			}
			if rng.IntN(30) == 0 {
				now += 99*l.W + rng.Int64N(2*l.W)
			}
			cost := border(rng, min(l.N, 1+l.N/int64(1+rng.IntN(9))))
			if rng.IntN(10) == 0 {
				cost = 0
			}
			if rng.IntN(8) == 0 {
				l.N = border(rng, core.MaxCounterRequests)
			}
			now = min(now, 1<<53-102*l.W)
			by := l
			by.Boundless = rng.IntN(10) == 0
			used := plain.on(now, l.W)
			v := c.Decide(by, now, now, cost)
			if want := by.Boundless || cost == 0 || ceil(used)+cost <= l.N; v.Admitted != want {
				t.Fatalf("seed %d: %+v, %s used, cost %d: %+v", seed, by, used.FloatString(3), cost, v)
			}
			fits := func(at int64) bool { return ceil(plain.on(at, l.W))+cost <= l.N }
			switch {
			case v.Admitted && cost == 0: // nothing changes
			case v.Admitted:
				c.Add(by, now, cost)
				if b := (*bucket)(&c.log).bucket(); b.Part >= l.W {
					t.Fatalf("seed %d: a whole unit stands in the part of %+v", seed, b)
				}
				plain.used, plain.at = new(big.Rat).Add(used, new(big.Rat).SetInt64(cost)), now
				if over := plain.used.Cmp(big.NewRat(maxCount, 1)); over > 0 {
					plain.used.Sub(plain.used, new(big.Rat).SetInt64(ceil(used)+cost-ceil(big.NewRat(maxCount, 1))))
					part := c.log.last & (1<<partBits - 1)
					plain.used = new(big.Rat).Add(big.NewRat(maxCount, 1), big.NewRat(part, l.W))
				}
				floor := new(big.Int).Div(plain.used.Num(), plain.used.Denom()).Int64()
				if plain.rate = max(l.N, (floor+100)/100); plain.rate > l.N {
					debts++
				}
			case v.RetryAfter == Never:
				if cost <= l.N {
					t.Fatalf("seed %d: %+v, cost %d: %+v", seed, by, cost, v)
				}
			case !fits(now+v.RetryAfter) || fits(now+v.RetryAfter-1):
				t.Fatalf("seed %d: %+v, %s used, cost %d: %+v is not exact", seed, by, used.FloatString(3), cost, v)
			default:
				refused++
			}
			full := func(at int64) bool { return plain.on(at, l.W).Sign() == 0 }
			if v.ResetAfter > 0 && (!full(now+v.ResetAfter) || full(now+v.ResetAfter-1)) || v.ResetAfter == 0 && !full(now) ||
				v.ResetAfter > mostWindows*l.W {
				t.Fatalf("seed %d: %+v, %s used: %+v", seed, by, plain.used.FloatString(3), v)
			}
			if got, want := v.Remaining, max(0, l.N-ceil(plain.on(now, l.W))); !by.Boundless && got != want {
				t.Fatalf("seed %d: %+v: %d remain, want %d", seed, by, got, want)
			}
		}
	}
	if refused < 1000 || debts < 1000 {
		t.Errorf("%d requests were refused, and %d debts made", refused, debts)
	}
	t.Logf("proved: a bucket against rational numbers: 3000 histories, %d refusals, %d debts", refused, debts)
}

// TestBucketPacked: the numbers of a bucket come out of a Count as they went in.
func TestBucketPacked(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 44))
		b := Bucket{rng.Int64(), border(rng, maxCount), border(rng, 1<<partBits-1), border(rng, maxCount)}
		var s bucket
		if s.set(b); s.bucket() != b || s.words != 0 || s.start != nil {
			t.Fatalf("%+v became %+v", b, s.bucket())
		}
	}
}

// TestBucketBound searches the arrivals that bring a bucket furthest above N + N*t/W, in any stretch: none does, and a
// burst reaches it. A bucket that refills by a sixtieth too fast is found out.
func TestBucketBound(t *testing.T) {
	const n, w = 20, 60_000
	bound := func(l Limit) func([]statespace.Arrival) int64 {
		return func(arrivals []statespace.Arrival) (above int64) {
			var c Count
			var admitted []int64
			above = -n * w
			for _, a := range arrivals {
				now := 1_790_000_000_000_000 + a.At
				for range a.N {
					if !c.Decide(l, now, now, 1).Admitted {
						break
					}
					c.Add(l, now, 1)
					admitted = append(admitted, now)
				}
				for i, from := range admitted {
					above = max(above, int64(len(admitted)-i)*w-n*w-n*(now-from))
				}
			}
			return above
		}
	}
	for seed := range uint64(6) {
		if a, got := statespace.Climb(seed, 3000, 3*w, n, bound(Limit{N: n, W: w, Algorithm: core.Bucket})); got != 0 {
			t.Errorf("seed %d: %d above the bound by %v, want it reached", seed, got, a)
		}
		if _, got := statespace.Climb(seed, 3000, 3*w, n, bound(Limit{N: n, W: w - w/60, Algorithm: core.Bucket})); got <= 0 {
			t.Errorf("seed %d: a bucket that is a sixtieth too fast is not found out", seed)
		}
	}
	t.Log("proved: limit 20, a bucket admits at most 20 + 20t/W in a stretch of t, and that many; seeds 0 to 5")
}

// TestBucketCenturies: however long ago it was filled, a bucket is empty.
func TestBucketCenturies(t *testing.T) {
	if n := (Bucket{Units: maxCount, Rate: maxCount}).On(1<<53, 1000).Used(); n != 0 {
		t.Errorf("after centuries %d are used", n)
	}
}

// TestBucketPast: what a sketch keeps of a bucket is never less than is used, at any time until all is back, and hardly
// more: units go on coming back while they are in a sketch.
func TestBucketPast(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 45))
		l := Limit{N: 1 + rng.Int64N(50), W: 1000 + rng.Int64N(5000), Algorithm: core.Bucket}
		b := &Bound{l, l.W}
		if rng.IntN(2) == 0 {
			b.Span = 2*l.W + rng.Int64N(l.W)
		}
		var c Count
		now := int64(1_790_000_000_000_000) + rng.Int64N(l.W)
		for range rng.IntN(20) {
			now += rng.Int64N(l.W / 4)
			if c.Decide(l, now, now, 1).Admitted {
				c.Add(l, now, 1)
			}
		}
		now += rng.Int64N(2) * rng.Int64N(l.W/2)
		p := c.Past(b, now)
		if used := c.Units(l, now); p.None() != (used == 0) || p.Newer > used || p.Newer < 0 ||
			p.Newer > 0 && p.Older < l.N && c.log.first < now {
			t.Fatalf("seed %d: %d used, and the past is %+v", seed, used, p)
		}
		var back Count
		if back.Restore(b, p, now); c.log.first == now && back.Units(l, now) != c.Units(l, now) {
			t.Fatalf("seed %d: %+v is no more than is used just now: %+v", seed, p, c)
		}
		epoch := b.Number(now)
		for later := now; later < now+2*l.W; later += 1 + rng.Int64N(l.W/9) {
			q := p
			for range b.Number(later) - epoch {
				q = Past{Older: q.Newer}
			}
			var back Count
			back.Restore(b, q, later)
			used, known := c.Units(l, later), back.Units(l, later)
			if known < used || later == now && known > used+1 && b.Span == l.W {
				t.Fatalf("seed %d: %+v restored %d after: %d used, and %d are known", seed, p, later-now, used, known)
			}
		}
	}
}

// TestBucketPastDecides: a Past says to the microsecond when it will let a request pass, and when it is empty, debts
// included.
func TestBucketPastDecides(t *testing.T) {
	refused := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 46))
		l := Limit{N: 1 + rng.Int64N(20), W: 1000 + rng.Int64N(2000), Algorithm: core.Bucket}
		b := &Bound{l, l.W}
		if rng.IntN(2) == 0 {
			b.Span = 2*l.W + rng.Int64N(l.W)
		}
		p, cost := Past{rng.Int64N(3 * l.N), rng.Int64N(2 * l.N)}, rng.Int64N(l.N+2)
		now := b.End(1_000_000) + 1 + rng.Int64N(b.Span)
		at := func(d int) Verdict {
			q := p
			for range b.Number(now+int64(d)) - b.Number(now) {
				q = Past{Older: q.Newer}
			}
			return q.Decide(b, now+int64(d), cost)
		}
		v, longest := at(0), int(3*b.Span)
		if cost > l.N {
			if v.Admitted || v.RetryAfter != Never {
				t.Fatalf("seed %d: cost %d of %d: %+v", seed, cost, l.N, v)
			}
			continue
		}
		if first := int64(sort.Search(longest, func(d int) bool { return at(d).Admitted })); v.RetryAfter != first {
			t.Fatalf("seed %d: %+v of %+v, cost %d: %+v, want RetryAfter %d", seed, p, b, cost, v, first)
		}
		if v.Admitted && cost > 0 {
			var c Count
			if c.Restore(b, p, now); v != c.Decide(l, now, now, cost) {
				t.Fatalf("seed %d: %+v of %+v, cost %d: %+v", seed, p, b, cost, v)
			}
			continue
		}
		refused++
		empty := func(d int) bool { return at(d).Remaining == l.N-cost && at(d).Admitted }
		if first := int64(sort.Search(longest, empty)); v.ResetAfter != first {
			t.Fatalf("seed %d: %+v of %+v, cost %d: %+v, want ResetAfter %d", seed, p, b, cost, v, first)
		}
	}
	if refused < 500 {
		t.Errorf("%d requests were refused", refused)
	}
}

//go:build !race && !short

package window

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/sashlimit/sash/core"
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

// exact is a Bucket by rational numbers: the microseconds that are owed at a time.
type exact struct {
	owed *big.Rat
	at   int64
}

// left returns what is owed at a time.
func (e *exact) left(t int64) *big.Rat {
	left := new(big.Rat).Sub(e.owed, big.NewRat(max(0, t-e.at), 1))
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left
}

// on returns what is owed at a time, by a limit whole Nths of a microsecond.
func (e *exact) on(l Limit, t int64) *big.Rat {
	left := e.left(t)
	num := left.Mul(left, big.NewRat(l.N, 1))
	up := new(big.Int).Add(num.Num(), new(big.Int).Sub(num.Denom(), big.NewInt(1)))
	return new(big.Rat).SetFrac(up.Quo(up, num.Denom()), big.NewInt(l.N))
}

// price returns what units of a limit cost.
func price(l Limit, units int64) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(l.W, l.N), big.NewRat(units, 1))
}

// used returns how many units are used at a time.
func (e *exact) used(l Limit, t int64) int64 {
	units := new(big.Rat).Quo(e.on(l, t), price(l, 1))
	if units.Cmp(big.NewRat(maxCount, 1)) > 0 {
		return maxCount
	}
	return ceil(units)
}

// ceil returns the least whole number that is not below r.
func ceil(r *big.Rat) int64 {
	n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return n.Div(n, r.Denom()).Int64()
}

// TestBucketExact: by any limit and window, and after any time, a bucket is what rational numbers say, to the last
// part of a microsecond: what remains, the microsecond at which a request passes, and the one at which all is back.
// Where the number changes, 2^-40 of a microsecond may be lost, and what is owed is rounded up to an Nth of one.
func TestBucketExact(t *testing.T) {
	refused, changed, debts := 0, 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 43))
		random := func() Limit {
			n, w := border(rng, core.MaxCounterRequests), max(1000, border(rng, core.MaxWindow.Microseconds()))
			return Limit{N: n, W: w, Algorithm: core.Bucket}
		}
		l := random()
		var c Count
		now := int64(1_790_000_000_000_000)
		plain := exact{new(big.Rat), now}
		for range 40 {
			switch pace := rng.IntN(4); pace {
			case 0:
			case 1:
				now += rng.Int64N(l.W)
			default:
				now += rng.Int64N(min(l.W, 2+l.W/l.N))
			}
			cost := border(rng, min(l.N, 1+l.N/int64(1+rng.IntN(9))))
			if rng.IntN(10) == 0 {
				cost = 0
			}
			if rng.IntN(8) == 0 {
				l = random()
				changed++
				b := (*bucket)(&c.log).bucket().AsOf(now)
				kept := new(big.Rat).Add(big.NewRat(b.Owed, 1), big.NewRat(b.Fraction, 1<<fractionBits))
				less := new(big.Rat).Sub(plain.left(now), kept)
				if less.Sign() < 0 || less.Cmp(big.NewRat(1, 1<<fractionBits)) >= 0 {
					t.Fatalf("seed %d: %+v, %s owed", seed, b, plain.left(now).FloatString(20))
				}
				plain.owed, plain.at = kept, now
			}
			by := l
			by.Unlimited = rng.IntN(10) == 0
			v := c.Decide(by, now, now, cost)
			fits := func(at int64) bool { return plain.used(l, at)+cost <= l.N }
			if want := by.Unlimited || cost == 0 || fits(now); v.Admitted != want {
				t.Fatalf("seed %d: %+v, %s owed, cost %d: %+v", seed, by, plain.on(l, now).FloatString(3), cost, v)
			}
			switch {
			case v.Admitted && cost == 0: // nothing changes
			case v.Admitted:
				owed := new(big.Rat).Add(plain.on(l, now), price(l, cost))
				if over := owed.Cmp(big.NewRat(maxOwed, 1)); over > 0 {
					owed = big.NewRat(maxOwed, 1)
					debts++
				}
				c.Add(by, now, cost)
				plain.owed, plain.at = owed, now
			case v.RetryAfter == Never:
				if cost <= l.N {
					t.Fatalf("seed %d: %+v, cost %d: %+v", seed, by, cost, v)
				}
			case !fits(now+v.RetryAfter) || fits(now+v.RetryAfter-1):
				t.Fatalf("seed %d: %+v, %s owed, cost %d: %+v is not exact", seed, by, plain.on(l, now), cost, v)
			default:
				refused++
			}
			full := func(at int64) bool { return plain.on(l, at).Sign() == 0 }
			if !full(now+v.ResetAfter) || v.ResetAfter > 0 && full(now+v.ResetAfter-1) {
				t.Fatalf("seed %d: %+v, %s owed: %+v", seed, by, plain.on(l, now).FloatString(3), v)
			}
			if got, want := v.Remaining, max(0, l.N-plain.used(l, now)); !by.Unlimited && got != want {
				t.Fatalf("seed %d: %+v: %d remain, want %d", seed, by, got, want)
			}
		}
	}
	if refused < 1000 || changed < 1000 || debts < 100 {
		t.Errorf("%d requests were refused, %d limits changed, and %d charges cut", refused, changed, debts)
	}
	t.Logf("proved: a bucket against rational numbers: 3000 histories, %d refusals, %d changes", refused, changed)
}

// TestBucketPacked: the numbers of a bucket come out of a Count as they went in.
func TestBucketPacked(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 44))
		b := Bucket{rng.Int64(), border(rng, maxOwed), border(rng, 1<<fractionBits-1), border(rng, maxElapsed)}
		var s bucket
		if s.set(b); s.bucket() != b || s.words != 0 || s.data != nil {
			t.Fatalf("%+v became %+v", b, s.bucket())
		}
	}
}

// TestBucketReturns: whatever numbers requests are asked by, whenever and in whichever order they are given back, and
// however many are refused: of those that are kept, the sum of cost*W/N in any stretch is at most its length and W. And
// where all is given back, and soon, nothing is left.
func TestBucketReturns(t *testing.T) {
	const w, all = 60_000_000, 720_720
	type request struct {
		at, left int64
		l        Limit
	}
	reached := 0
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 47))
		limits := []Limit{{N: 10, W: w}, {N: 1 + rng.Int64N(16), W: w}, {N: 12, W: w / (1 + rng.Int64N(3))}}
		var c Count
		var out, kept []request
		now, returns, longest := int64(1_790_000_000_000_000), rng.IntN(4) > 0, int64(w)>>rng.IntN(20)
		for range 150 {
			l := limits[min(rng.IntN(5), len(limits)-1)]
			l.Algorithm = core.Bucket
			switch i := rng.IntN(4); {
			case i == 0:
				now += rng.Int64N(longest)
			case i == 1 && len(out) > 0 && returns:
				j := rng.IntN(len(out))
				r := &out[j]
				units := 1 + rng.Int64N(r.left)
				if c.Return(r.l, r.at, now, r.left, units); r.left == units {
					out = append(out[:j], out[j+1:]...)
				} else {
					r.left -= units
				}
			default:
				cost := 1 + rng.Int64N(4)
				by := l
				by.Unlimited = rng.IntN(9) == 0
				if by.Unlimited {
					cost = 1 + rng.Int64N(100_000)
				}
				if !c.Decide(by, now, now, cost).Admitted {
					break
				}
				c.Add(by, now, cost)
				if r := (request{now, cost, l}); by.Unlimited {
					c.Return(l, now, now, cost, cost)
				} else if rng.IntN(3) == 0 {
					kept = append(kept, r)
				} else {
					out = append(out, r)
				}
			}
		}
		if !returns {
			kept = append(kept, out...)
			slices.SortFunc(kept, func(a, b request) int { return int(a.at - b.at) })
		}
		for i := range kept {
			sum := int64(0)
			for _, r := range kept[i:] {
				sum += r.left * r.l.W * (all / r.l.N)
				switch above := sum - (w+r.at-kept[i].at)*all; {
				case above > 0:
					t.Fatalf("seed %d: from %d to %d: %d above the bound", seed, kept[i].at, r.at, above)
				case above == 0:
					reached++
				}
			}
		}
	}
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 48))
		l := Limit{N: 1 + rng.Int64N(10), W: w, Algorithm: core.Bucket}
		var c Count
		var out []int64
		now := int64(1_790_000_000_000_000)
		for step := range 40 {
			now += rng.Int64N(w / 10 / 50)
			if j := rng.IntN(len(out) + 1); j < len(out) && (step > 30 || rng.IntN(2) == 0) {
				c.Return(l, out[j], now, 1, 1)
				out = slices.Delete(out, j, j+1)
			} else if step <= 30 && c.Decide(l, now, now, 1).Admitted {
				c.Add(l, now, 1)
				out = append(out, now)
			}
		}
		for _, at := range out {
			c.Return(l, at, now, 1, 1)
		}
		if !c.IsEmpty(l, now) {
			t.Errorf("seed %d: all is given back, and left is %+v", seed, (*bucket)(&c.log).bucket())
		}
	}
	t.Logf("proved: a bucket from which requests are given back: 4000 histories, %d stretches at the bound", reached)
}

// TestBucketCenturies: however long ago it was filled, a bucket is empty.
func TestBucketCenturies(t *testing.T) {
	if n := (Bucket{Owed: maxOwed}).AsOf(1 << 53).drainTime(); n != 0 {
		t.Errorf("after centuries %d are owed", n)
	}
}

// TestBucketEvicted: an EvictedCount of a bucket is never less than is used, at any time until all is back, and hardly
// more: units go on coming back while they are in a sketch.
func TestBucketEvicted(t *testing.T) {
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
		p := c.Summarize(b, now)
		unit, _ := new(bucket).evictedUnits(b, 0)
		unit.Algorithm = core.Bucket
		if used := c.Units(unit, now); p.IsZero() != (used == 0) || p.Newer > used || p.Newer < 0 ||
			p.Newer > 0 && p.Older < b.Span/unit.W && c.log.first < now {
			t.Fatalf("seed %d: %d used, and the evicted count is %+v", seed, used, p)
		}
		var back Count
		if back.Restore(b, p, now); c.log.first == now && back.Units(l, now) > c.Units(l, now)+1 {
			t.Fatalf("seed %d: %+v is no more than is used just now: %+v", seed, p, c)
		}
		epoch := b.EpochAt(now)
		for later := now; later < now+2*l.W; later += 1 + rng.Int64N(l.W/9) {
			q := p
			for range b.EpochAt(later) - epoch {
				q = EvictedCount{Older: q.Newer}
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

// TestBucketEvictedDecides: RetryAfter and ResetAfter of an EvictedCount are exact to the microsecond, for debts too.
func TestBucketEvictedDecides(t *testing.T) {
	refused := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 46))
		l := Limit{N: 1 + rng.Int64N(20), W: 1000 + rng.Int64N(2000), Algorithm: core.Bucket}
		b := &Bound{l, l.W}
		if rng.IntN(2) == 0 {
			b.Span = 2*l.W + rng.Int64N(l.W)
		}
		p, cost := EvictedCount{rng.Int64N(3 * l.W), rng.Int64N(2 * l.W)}, rng.Int64N(l.N+2)
		now := b.End(1_000_000) + 1 + rng.Int64N(b.Span)
		at := func(d int) Verdict {
			q := p
			for range b.EpochAt(now+int64(d)) - b.EpochAt(now) {
				q = EvictedCount{Older: q.Newer}
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

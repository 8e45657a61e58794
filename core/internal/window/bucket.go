package window

import (
	"math/bits"

	"github.com/sashlimit/sash/core"
)

// Bucket is the debt of a client, as a time: from At it takes Owed microseconds and Fraction/2^40 of one until all
// is paid. Under a limit of N in W each unit costs W/N, a request adds its cost, and no more than W may be owed. So the
// debt means the same under every limit, and no rate is stored. The zero value owes nothing.
//
// All numbers are integers. A debt is a whole number of Nths of a microsecond, and Fraction is less than 2^-40 below:
// under the same N every step is exact. Another N rounds the debt up to its next Nth. Intermediate products have up to
// 93 bits: two words here, and digits in Lua, whose numbers are exact up to 2^53 (bucket.lua).
//
// Elapsed is the time since when something is owed, less the part that has paid for requests which were returned. Time
// pays once: a Return does not give back what time has paid for.
//
// Theorem. In any stretch of length t, the sum of cost*W/N of the requests that are admitted and not returned is at
// most t and the longest W of them.
type Bucket struct{ At, Owed, Fraction, Elapsed int64 }

const (
	// maxOwed is 142 years, longer than any window. A debt is cut to it, which only a charge can reach. A request that
	// costs more than half of it leaves a window owed when it is returned, and before that no other request is
	// returned.
	maxOwed = 1 << 52

	fractionBits = 40
	maxElapsed   = 1<<48 - 1 // nine years
)

// mulDiv returns the quotient and the remainder of a*b/c, or maxOwed if the quotient is greater.
func mulDiv(a, b, c int64) (quotient, rest int64) {
	if a == 0 {
		return 0, 0 // mostly, and a division is slow
	}
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high >= uint64(c) {
		return maxOwed, 0
	}
	q, r := bits.Div64(high, low, uint64(c))
	if q >= maxOwed {
		return maxOwed, 0
	}
	return int64(q), int64(r)
}

// numerator returns the least integer k for which k/n is at least Fraction/2^40. It may be n.
func (b Bucket) numerator(n int64) int64 {
	k, rest := mulDiv(b.Fraction, n, 1<<fractionBits)
	if rest > 0 {
		k++
	}
	return k
}

// plus returns the bucket with owed+num/n microseconds more. num is between -n and n, and both may be negative.
func (b Bucket) plus(owed, num, n int64) Bucket {
	num += b.numerator(n)
	switch b.Owed += owed; {
	case num < 0:
		b.Owed, num = b.Owed-1, num+n
	case num >= n:
		b.Owed, num = b.Owed+num/n, num%n
	}
	b.Fraction, _ = mulDiv(num, 1<<fractionBits, n)
	if b.Owed >= maxOwed {
		b.Owed, b.Fraction = maxOwed, 0
	}
	return b
}

// Used returns the number of units of a limit that are owed, in whole or in part.
func (b Bucket) Used(l Limit) int64 {
	units, rest := mulDiv(b.Owed, l.N, l.W)
	return min(units+(rest+b.numerator(l.N)+l.W-1)/l.W, maxCount)
}

// AsOf returns the bucket at t. Before At it stays as it is.
func (b Bucket) AsOf(t int64) Bucket {
	passed := t - b.At
	if passed <= 0 {
		return b
	}
	if b.At = t; passed >= b.drainTime() {
		return Bucket{At: t}
	}
	b.Owed -= passed
	b.Elapsed = min(b.Elapsed+passed, maxElapsed)
	return b
}

// drainTime returns the time from At until nothing is owed.
func (b Bucket) drainTime() int64 {
	if b.Fraction > 0 {
		return b.Owed + 1
	}
	return b.Owed
}

// timeUntil returns the time from At until no more than the given units are used. At At more are.
func (b Bucket) timeUntil(units int64, l Limit) int64 {
	owed, rest := mulDiv(units, l.W, l.N)
	wait := b.Owed - owed
	if b.numerator(l.N) > rest {
		wait++
	}
	return wait
}

// Take returns the bucket after cost units more.
func (b Bucket) Take(l Limit, cost int64) Bucket {
	owed, num := mulDiv(cost, l.W, l.N)
	return b.plus(owed, num, l.N)
}

// Decide returns the verdict on a request of the given cost at now, and the bucket after it. An admitted request is
// counted at stamp, which is not before now and At.
func (b Bucket) Decide(l Limit, now, stamp, cost int64) (Bucket, Verdict) {
	b = b.AsOf(stamp)
	v := Verdict{Admitted: l.fits(b.Used(l), cost)}
	switch {
	case v.Admitted && cost > 0:
		b = b.Take(l, cost)
	case v.Admitted:
	case cost > l.N:
		v.RetryAfter = Never
	default:
		v.RetryAfter = stamp + b.timeUntil(l.N-cost, l) - now
	}
	if drain := b.drainTime(); drain > 0 {
		v.ResetAfter = stamp + drain - now
	}
	v.Remaining = l.left(b.Used(l))
	return b, v
}

// Return takes back units of a request at a time, as [Count.Return] does: none if the time until At has paid for all
// of cost, and else the units that the Elapsed time since the request has not paid for. Time pays first for the units
// that are not returned.
func (b Bucket) Return(l Limit, at, cost, units int64) (_ Bucket, returned int64) {
	passed := b.At - at
	owed, num := mulDiv(cost, l.W, l.N)
	switch {
	case passed < 0:
		return b, 0
	case owed > maxOwed/2: // the debt may have been cut
		b.Owed = min(b.Owed, l.W)
		return b, units
	case b.Owed > maxOwed/2:
		return b, 0
	}
	returned = min(units, b.plus(passed, 0, l.N).Used(l))
	if owed < passed || owed == passed && num == 0 {
		return b, returned
	}
	kept, keptNum := mulDiv(cost-units, l.W, l.N)
	if paid := min(passed, b.Elapsed); kept < paid {
		b.Elapsed -= paid - kept
		if keptNum > 0 {
			b.Elapsed++
		}
		kept, keptNum = paid, 0
	}
	if b = b.plus(kept-owed, keptNum-num, l.N); b.Owed < 0 || b.drainTime() == 0 {
		return Bucket{}, returned
	}
	return b, returned
}

// bucket is a Bucket in the fields of a Log. At has 64 bits. The others share the 144 bits of last, head, entries and
// units: Owed has 53, Fraction 40 and Elapsed 48.
type bucket Log

func init() { algorithms[core.Bucket] = func(c *Count) algorithm { return (*bucket)(&c.log) } }

const owedBits = 53

func (s *bucket) bucket() Bucket {
	low, high := uint64(s.last), uint64(s.head)|uint64(s.entries)<<32
	elapsed := low>>owedBits | high>>fractionBits<<(64-owedBits) | uint64(s.units)<<(128-owedBits-fractionBits)
	return Bucket{s.first, int64(low & (1<<owedBits - 1)), int64(high & (1<<fractionBits - 1)), int64(elapsed)}
}

func (s *bucket) set(b Bucket) {
	elapsed := uint64(b.Elapsed)
	high := uint64(b.Fraction) | elapsed>>(64-owedBits)<<fractionBits
	s.first, s.last = b.At, b.Owed|int64(elapsed<<owedBits)
	s.head, s.entries, s.units = uint32(high), uint32(high>>32), Rounded(elapsed>>(128-owedBits-fractionBits))
}

func (s *bucket) minStamp(Limit) int64 { return s.first }

func (s *bucket) decide(l Limit, now, stamp, cost int64) Verdict {
	_, v := s.bucket().Decide(l, now, stamp, cost)
	return v
}

func (s *bucket) take(l Limit, now, cost int64) (v Verdict, words int) {
	b, v := s.bucket().Decide(l, now, now, cost)
	if v.Admitted && cost > 0 {
		s.set(b)
	}
	return v, 0
}

func (s *bucket) prepare(Limit, int64, int64) (words int) { return 0 }

func (s *bucket) add(l Limit, stamp, cost int64) {
	s.set(s.bucket().AsOf(stamp).Take(l, cost))
}

func (s *bucket) giveBack(l Limit, at, cost, units int64) int64 {
	b, returned := s.bucket().Return(l, at, cost, units)
	s.set(b)
	return returned
}

func (s *bucket) isEmpty(_ Limit, now int64) bool { return s.bucket().AsOf(now).drainTime() == 0 }

func (s *bucket) unitsAt(l Limit, now int64) int64 { return s.bucket().AsOf(now).Used(l) }

func (s *bucket) trim(Limit, int64) {}

// evictedUnits returns the cost in units of a limit of 1 unit in some microseconds: an EvictedCount holds times here.
func (*bucket) evictedUnits(b *Bound, cost int64) (Limit, int64) {
	l := Limit{N: 1, W: 1 + b.Span>>39}
	return l, Bucket{}.Take(b.Limit, cost).Used(l)
}

// summarize counts as Older the debt at the start of the epoch, up to a Span, so that it goes on falling. The rest is
// Newer: it can only be of this epoch. A debt of now itself is Newer too, which keeps it exact.
func (s *bucket) summarize(b *Bound, now int64) (p EvictedCount) {
	l, _ := s.evictedUnits(b, 0)
	debt := s.bucket().AsOf(now)
	used := debt.Used(l)
	if used == 0 || s.first >= now {
		return EvictedCount{Newer: used}
	}
	debt.Owed += now - b.previousEnd(now)
	atStart := debt.Used(l)
	p.Older = min(atStart, b.Span/l.W)
	p.Newer = min(atStart-p.Older, used)
	return p
}

func (*bucket) compact() {}

func (*bucket) start(_ Limit, at int64) int64 { return at }

func (*bucket) end(_ Limit, at int64) int64 { return at + maxOwed }

// epoch is not the window, so that no other algorithm shares a class of the sketch with these times.
func (*bucket) epoch(l Limit) int64 { return l.W + 1 }

func (s *bucket) decideEvicted(p EvictedCount, b *Bound, now, cost int64) Verdict {
	l, _ := s.evictedUnits(b, 0)
	older := b.previousEnd(now)
	whole, newer := Bucket{At: older}.Take(l, p.Older), Bucket{}.Take(l, p.Newer)
	_, v := whole.AsOf(now).Take(l, p.Newer).Decide(b.Limit, now, now, cost)
	// The Newer debt stays as it is until the epoch ends. Then time pays it off, and after an epoch it is discarded.
	wait := func(units int64) int64 {
		if newer.Used(b.Limit) <= units {
			return min(older+whole.Take(l, p.Newer).timeUntil(units, b.Limit), older+b.Span+1) - now
		}
		return older + b.Span + min(newer.timeUntil(units, b.Limit), b.Span+1) - now
	}
	if v.RetryAfter != 0 && v.RetryAfter != Never {
		v.RetryAfter = wait(b.N - cost)
	}
	if v.ResetAfter != 0 && (cost == 0 || !v.Admitted) {
		v.ResetAfter = wait(0)
	}
	return v
}

func (*bucket) restoredWords(EvictedCount, int64) (words int) { return 0 }

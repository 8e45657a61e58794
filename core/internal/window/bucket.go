package window

import (
	"math/bits"

	"github.com/sashlimit/sash/core"
)

// Bucket holds what a client owes at a time At, as a time: Owed microseconds and Part/2^40 of one, until all is paid.
// It falls as time passes. Under a limit of N in W each unit costs W/N, and W may be owed at most: so what is owed
// stands for the same whoever asks, and no pace is kept. The zero value owes nothing.
//
// All numbers are integers. What is owed is a whole number of Nths of a microsecond, and the Part is less than one of
// 2^40 below: so by the same N every step is exact. By another N it is rounded up to the next Nth. An intermediate
// product has up to 93 bits: here it is made of two words, and in Lua, where 2^53 is the end, of digits (bucket.lua).
//
// Free is how long something has been owed, less the time that is known to have paid for requests that were given back.
// Time pays once: what it has paid for does not come back by a Return as well.
//
// Theorem. In any stretch of length t, the sum of cost*W/N of the requests that are admitted and not given back is at
// most t and the longest W of them. TestBucketReturns searches for what breaks it.
type Bucket struct{ At, Owed, Part, Free int64 }

// maxOwed is 142 years. What is owed beyond is not counted: of a charge, since no limit has a window as long. A charge
// of more than half of it leaves a window owed when it is given back, and nothing else is given back until then.
const maxOwed = 1 << 52

// share returns the quotient and the remainder of a*b/c, or maxOwed if the quotient is greater.
func share(a, b, c int64) (quotient, rest int64) {
	if a == 0 {
		return 0, 0 // mostly, and a division is dear
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

const (
	partBits = 40
	maxFree  = 1<<48 - 1 // nine years
)

// nths returns the Part in Nths of a microsecond, rounded up. It may be n.
func (b Bucket) nths(n int64) int64 {
	part, rest := share(b.Part, n, 1<<partBits)
	if rest > 0 {
		part++
	}
	return part
}

// plus returns the bucket with so much more owed, or less: its Part in Nths, less than two of n above and one below.
func (b Bucket) plus(owed, nths, n int64) Bucket {
	nths += b.nths(n)
	switch b.Owed += owed; {
	case nths < 0:
		b.Owed, nths = b.Owed-1, nths+n
	case nths >= n:
		b.Owed, nths = b.Owed+nths/n, nths%n
	}
	b.Part, _ = share(nths, 1<<partBits, n)
	if b.Owed >= maxOwed {
		b.Owed, b.Part = maxOwed, 0
	}
	return b
}

// Used returns how many units of a limit are used, in whole or in part.
func (b Bucket) Used(l Limit) int64 {
	units, rest := share(b.Owed, l.N, l.W)
	return min(units+(rest+b.nths(l.N)+l.W-1)/l.W, maxCount)
}

// On returns the bucket as it stands at t. Before At it stands still.
func (b Bucket) On(t int64) Bucket {
	e := t - b.At
	if e <= 0 {
		return b
	}
	if b.At = t; e >= b.due() {
		return Bucket{At: t}
	}
	b.Owed -= e
	b.Free = min(b.Free+e, maxFree)
	return b
}

// falls returns how long it takes from At until no more than room is used. At At it is more.
func (b Bucket) falls(room int64, l Limit) int64 {
	e, rest := share(room, l.W, l.N)
	e = b.Owed - e
	if b.nths(l.N) > rest {
		e++
	}
	return e
}

// Take returns the bucket after cost units more.
func (b Bucket) Take(l Limit, cost int64) Bucket {
	owed, nths := share(cost, l.W, l.N)
	return b.plus(owed, nths, l.N)
}

// due returns how long it takes from At until nothing is owed.
func (b Bucket) due() int64 {
	if b.Part > 0 {
		return b.Owed + 1
	}
	return b.Owed
}

// Decide is the bucket's verdict on a request of the given cost at now, which is counted at stamp: not before now and
// At. It returns the bucket after the request, too.
func (b Bucket) Decide(l Limit, now, stamp, cost int64) (Bucket, Verdict) {
	b = b.On(stamp)
	v := Verdict{Admitted: l.fits(b.Used(l), cost)}
	switch {
	case v.Admitted && cost > 0:
		b = b.Take(l, cost)
	case v.Admitted:
	case cost > l.N:
		v.RetryAfter = Never
	default:
		v.RetryAfter = stamp + b.falls(l.N-cost, l) - now
	}
	if due := b.due(); due > 0 {
		v.ResetAfter = stamp + due - now
	}
	v.Remaining = l.left(b.Used(l))
	return b, v
}

// Return takes back units of a request at a time, of which cost is left, as [Count.Return] does: nothing once as much
// time has passed until At as the cost takes to come back, and else what Free time has not paid since the request. That
// pays first for the units which are not given back.
func (b Bucket) Return(l Limit, at, cost, units int64) (_ Bucket, returned int64) {
	passed := b.At - at
	whole, nths := share(cost, l.W, l.N)
	switch {
	case passed < 0:
		return b, 0
	case whole > maxOwed/2: // it may have been cut
		b.Owed = min(b.Owed, l.W)
		return b, units
	case b.Owed > maxOwed/2:
		return b, 0
	}
	returned = min(units, b.plus(passed, 0, l.N).Used(l))
	if whole < passed || whole == passed && nths == 0 {
		return b, returned
	}
	kept, keptNths := share(cost-units, l.W, l.N)
	free := min(passed, b.Free)
	if kept < free {
		b.Free -= free - kept
		if keptNths > 0 {
			b.Free++
		}
		kept, keptNths = free, 0
	}
	if b = b.plus(kept-whole, keptNths-nths, l.N); b.Owed < 0 || b.due() == 0 {
		return Bucket{}, returned
	}
	return b, returned
}

// bucket is a Bucket in a Count: its numbers stand in fields of a Log, At in 64 bits, and the others in 144 that no
// ring needs: Owed has 53, Part 40 and Free 48.
type bucket Log

func init() { rooms[core.Bucket] = func(c *Count) room { return (*bucket)(&c.log) } }

const owedBits = 53

func (s *bucket) bucket() Bucket {
	low, high := uint64(s.last), uint64(s.head)|uint64(s.entries)<<32
	free := low>>owedBits | high>>partBits<<(64-owedBits) | uint64(s.units)<<(128-owedBits-partBits)
	return Bucket{s.first, int64(low & (1<<owedBits - 1)), int64(high & (1<<partBits - 1)), int64(free)}
}

func (s *bucket) set(b Bucket) {
	free := uint64(b.Free)
	high := uint64(b.Part) | free>>(64-owedBits)<<partBits
	s.first, s.last = b.At, b.Owed|int64(free<<owedBits)
	s.head, s.entries, s.units = uint32(high), uint32(high>>32), Rounded(free>>(128-owedBits-partBits))
}

func (s *bucket) begun(Limit) int64 { return s.first }

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
	s.set(s.bucket().On(stamp).Take(l, cost))
}

func (s *bucket) giveBack(l Limit, at, _, cost, units int64) int64 {
	b, returned := s.bucket().Return(l, at, cost, units)
	s.set(b)
	return returned
}

func (s *bucket) spent(_ Limit, now int64) bool { return s.bucket().On(now).due() == 0 }

func (s *bucket) held(l Limit, now int64) int64 { return s.bucket().On(now).Used(l) }

func (s *bucket) trim(Limit, int64) {}

// inPast returns the cost in units of some microseconds that are owed: a Past keeps times, as a Bucket does.
func (*bucket) inPast(b *Bound, cost int64) (Limit, int64) {
	l := Limit{N: 1, W: 1 + b.Span>>39}
	return l, Bucket{}.Take(b.Limit, cost).Used(l)
}

// past counts as Older what may have been owed when the epoch began, as much as is paid off in a Span, so that it goes
// on falling. The rest must be of this epoch. What is owed just now is of it too, so that it is neither more nor less.
func (s *bucket) past(b *Bound, now int64) (p Past) {
	l, _ := s.inPast(b, 0)
	owed := s.bucket().On(now)
	used := owed.Used(l)
	if used == 0 || s.first >= now {
		return Past{Newer: used}
	}
	owed.Owed += now - b.older(now)
	then := owed.Used(l)
	p.Older = min(then, b.Span/l.W)
	p.Newer = min(then-p.Older, used)
	return p
}

func (*bucket) coarsen() {}

func (*bucket) begin(_ Limit, at int64) int64 { return at }

func (*bucket) end(_ Limit, at int64) int64 { return at + maxOwed }

// epoch is no window of another algorithm, which would find times among its units.
func (*bucket) epoch(l Limit) int64 { return l.W + 1 }

func (s *bucket) decidePast(p Past, b *Bound, now, cost int64) Verdict {
	l, _ := s.inPast(b, 0)
	older := b.older(now)
	whole, newer := Bucket{At: older}.Take(l, p.Older), Bucket{}.Take(l, p.Newer)
	_, v := whole.On(now).Take(l, p.Newer).Decide(b.Limit, now, now, cost)
	// Until the epoch ends the Newer stay as they are. Then they come back, and an epoch later they are forgotten.
	till := func(room int64) int64 {
		if newer.Used(b.Limit) <= room {
			return min(older+whole.Take(l, p.Newer).falls(room, b.Limit), older+b.Span+1) - now
		}
		return older + b.Span + min(newer.falls(room, b.Limit), b.Span+1) - now
	}
	if v.RetryAfter != 0 && v.RetryAfter != Never {
		v.RetryAfter = till(b.N - cost)
	}
	if v.ResetAfter != 0 && (cost == 0 || !v.Admitted) {
		v.ResetAfter = till(0)
	}
	return v
}

func (*bucket) restored(Past, int64) (words int) { return 0 }

// dated is false: where a Past was restored it is not known for how long something has been owed.
func (*bucket) dated() bool { return false }

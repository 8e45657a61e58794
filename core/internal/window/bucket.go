package window

import (
	"math/bits"

	"github.com/sashlimit/sash/core"
)

// Bucket holds the units that are used of a limit, at a time At: Units and Part/W of one. From then on they come back
// at an even pace, Rate of them in W. The zero value has nothing used.
//
// All numbers are integers, and every step is exact. In e microseconds e*Rate/W units come back, which is a quotient
// and a remainder below W: W/N need not be whole, and nothing is rounded, so nothing drifts. An intermediate product
// has up to 92 bits: here it is made of two words, and in Lua, where 2^53 is the end, of digits (bucket.lua).
//
// What is kept is units, and not the time until all are back: so a limit that is raised gives the difference at once.
// The Rate is that of the limit by which the newest request was counted. So what is used, and until when, does not
// depend on who asks.
//
// Theorem. In any stretch of length t at most N + N*t/W units are admitted, less those that are given back in it, where
// N is the largest limit that counts here. Proof: no admission leaves more than N used. What is used grows by each unit
// that is admitted. It falls by those that are given back, and by N*t/W in t at most: not while the clock steps back.
type Bucket struct{ At, Units, Part, Rate int64 }

// mostWindows bounds a debt, which a charge makes: it is paid in so many windows, at a higher Rate than N if need be.
const mostWindows = 100

// share returns the quotient and the remainder of e*rate/w. The quotient must fit.
func share(e, rate, w int64) (units, part int64) {
	high, low := bits.Mul64(uint64(e), uint64(rate))
	quotient, rest := bits.Div64(high, low, uint64(w))
	return int64(quotient), int64(rest)
}

// Used returns how many units are used, in whole or in part.
func (b Bucket) Used() int64 {
	if b.Part > 0 {
		return b.Units + 1
	}
	return b.Units
}

// On returns the bucket as it stands at t. Before At it stands still.
func (b Bucket) On(t, w int64) Bucket {
	e := t - b.At
	if e <= 0 {
		return b
	}
	b.At += e
	units, part := share(min(e, mostWindows*w), b.Rate, w) // in mostWindows all units come back
	if b.Units, b.Part = b.Units-units, b.Part-part; b.Part < 0 {
		b.Units, b.Part = b.Units-1, b.Part+w
	}
	if b.Units < 0 {
		b.Units, b.Part = 0, 0
	}
	return b
}

// falls returns how long it takes from At until no more than room is used. At At it is more.
func (b Bucket) falls(room, w int64) int64 {
	high, low := bits.Mul64(uint64(b.Units-room), uint64(w))
	low, carry := bits.Add64(low, uint64(b.Part), 0)
	low, more := bits.Add64(low, uint64(b.Rate-1), 0)
	e, _ := bits.Div64(high+carry+more, low, uint64(b.Rate))
	return int64(e)
}

// Take returns the bucket after cost units more, of which it holds maxCount at most.
func (b Bucket) Take(l Limit, cost int64) Bucket {
	b.Units = min(b.Units+cost, maxCount)
	b.Rate = max(l.N, (b.Units+mostWindows)/mostWindows)
	return b
}

// Decide is the bucket's verdict on a request of the given cost at now, which is counted at stamp: not before now and
// At.
func (b Bucket) Decide(l Limit, now, stamp, cost int64) Verdict {
	b = b.On(stamp, l.W)
	v := Verdict{Admitted: l.fits(b.Used(), cost)}
	switch {
	case v.Admitted && cost > 0:
		b = b.Take(l, cost)
	case v.Admitted:
	case cost > l.N:
		v.RetryAfter = Never
	default:
		v.RetryAfter = stamp + b.falls(l.N-cost, l.W) - now
	}
	if b.Used() > 0 {
		v.ResetAfter = stamp + b.falls(0, l.W) - now
	}
	v.Remaining = l.left(b.Used())
	return v
}

// Return takes back units of a request at a time, as [Count.Return] does. What comes back of itself in a window counts
// no more: so of a request a window before At or more nothing is left to take.
func (b Bucket) Return(w, at, units int64) (_ Bucket, returned int64) {
	switch {
	case at > b.At:
		return b, 0
	case at <= b.At-w:
		return b, units
	}
	back, _ := share(b.At-at, b.Rate, w)
	returned = min(units, b.Used()+back)
	if b.Units -= units; b.Units < 0 || b.Used() == 0 {
		return Bucket{}, returned
	}
	return b, returned
}

// bucket is a Bucket in a Count: its numbers stand in fields of a Log, At in 64 bits and the others in 128 that no ring
// needs: Part has 45, Rate and Units 41 each.
type bucket Log

func init() { rooms[core.Bucket] = func(c *Count) room { return (*bucket)(&c.log) } }

const (
	partBits = 45
	rateBits = 64 - partBits // the lower ones, which stand beside the Part
	unitBits = 41
)

func (s *bucket) bucket() Bucket {
	low, high := uint64(s.last), uint64(s.head)|uint64(s.entries)<<32
	return Bucket{
		At: s.first, Part: int64(low & (1<<partBits - 1)), Units: int64(high & (1<<unitBits - 1)),
		Rate: int64(low>>partBits | high>>unitBits<<rateBits),
	}
}

func (s *bucket) set(b Bucket) {
	rate := uint64(b.Rate)
	high := uint64(b.Units) | rate>>rateBits<<unitBits
	s.first, s.last = b.At, b.Part|int64(rate<<partBits)
	s.head, s.entries = uint32(high), uint32(high>>32)
}

func (s *bucket) begun(Limit) int64 { return s.first }

func (s *bucket) decide(l Limit, now, stamp, cost int64) Verdict {
	return s.bucket().Decide(l, now, stamp, cost)
}

func (s *bucket) take(l Limit, now, cost int64) (v Verdict, words int) {
	b := s.bucket().On(now, l.W)
	if v = b.Decide(l, now, now, cost); v.Admitted && cost > 0 {
		s.set(b.Take(l, cost))
	}
	return v, 0
}

func (s *bucket) prepare(Limit, int64, int64) (words int) { return 0 }

func (s *bucket) add(l Limit, stamp, cost int64) {
	s.set(s.bucket().On(stamp, l.W).Take(l, cost))
}

func (s *bucket) giveBack(l Limit, at, _, units int64) int64 {
	b, returned := s.bucket().Return(l.W, at, units)
	s.set(b)
	return returned
}

func (s *bucket) spent(l Limit, now int64) bool { return s.held(l, now) == 0 }

func (s *bucket) held(l Limit, now int64) int64 { return s.bucket().On(now, l.W).Used() }

func (s *bucket) trim(Limit, int64) {}

// past counts as Older what may have been used when the epoch began, N at most, so that it goes on coming back. The
// rest must be of this epoch. Units that are used just now are of it too, so that they are neither more nor less.
func (s *bucket) past(b *Bound, now int64) (p Past) {
	used := s.held(b.Limit, now)
	if used == 0 || s.first >= now {
		return Past{Newer: used}
	}
	back, _ := share(now-b.older(now), b.N, b.W)
	then := used + back + 1
	p.Older = min(then, b.N)
	p.Newer = min(then-p.Older, used)
	return p
}

func (*bucket) coarsen() {}

func (*bucket) begin(_ Limit, at int64) int64 { return at }

// end is of a debt, which is paid in mostWindows.
func (*bucket) end(l Limit, at int64) int64 { return at + mostWindows*l.W }

func (*bucket) epoch(l Limit) int64 { return l.W }

func (*bucket) decidePast(p Past, b *Bound, now, cost int64) Verdict {
	var c bucket
	counted, older := p.counted(b, now), b.older(now)
	c.add(b.Limit, older, counted.Older)
	whole := c.bucket()
	c.add(b.Limit, now, counted.Newer)
	v := c.decide(b.Limit, now, now, cost)
	// Until the epoch ends the Newer stay as they are. Then they come back, and an epoch later they are forgotten.
	till := func(room int64) int64 {
		if counted.Newer <= room {
			return min(older+whole.falls(room-counted.Newer, b.W), older+b.Span+1) - now
		}
		end := older + b.Span
		return end + min(Bucket{}.Take(b.Limit, counted.Newer).falls(room, b.W), b.Span+1) - now
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

// dated is true: a bucket does not ask which units go back.
func (*bucket) dated() bool { return true }

package window

import "github.com/sashlimit/sash/core"

// Counter is the counts of one fixed window and of the one before it. Windows
// are aligned to the Unix epoch: window i is [i*W, (i+1)*W). The zero value
// counts nothing.
type Counter struct{ Index, Prev, Cur int64 }

// Start returns the start of the counter's window.
func (c Counter) Start(w int64) int64 { return c.Index * w }

// At returns the counter at t, which is not before its Start.
func (c Counter) At(t, w int64) Counter {
	if uint64(t-c.Start(w)) < uint64(w) { // mostly, and a division is slow
		return c
	}
	i := t / w
	if i == c.Index+1 {
		return Counter{Index: i, Prev: c.Cur}
	}
	return Counter{Index: i}
}

const maxCount = 1 << 40 // the largest limit

// IsEmpty reports whether nothing counts at t.
func (c Counter) IsEmpty(t, w int64) bool {
	e := t - c.Start(w)
	return e >= 2*w || c.Cur == 0 && (e >= w || c.Prev == 0)
}

// weighted returns the part of prev that still counts when e of a window W has
// passed. Redis computes the same expression in the same order. The result never
// increases with e, since each IEEE operation is monotone. Nothing is negative,
// so the conversion to an integer is the floor.
func weighted(prev, e, w int64) int64 {
	if prev == 0 {
		return 0 // mostly, and a division is slow
	}
	return int64(float64(prev) * (float64(w-e) / float64(w)))
}

// Estimate returns the estimate of the units in the window that ends at t. The
// counter must be At(t).
func (c Counter) Estimate(t, w int64) int64 {
	return weighted(c.Prev, t-c.Start(w), w) + c.Cur
}

// Decide returns the verdict on a request of the given cost at now. The request
// is evaluated and counted at stamp: the latest of now and the Start of every
// counter of the decision. The counter must be At(stamp).
func (c Counter) Decide(l Limit, now, stamp, cost int64) Verdict {
	counted := c.Estimate(stamp, l.W)
	v := Verdict{Admitted: l.fits(counted, cost)}
	if v.Admitted {
		counted += cost
	}
	v.Remaining = l.left(counted)
	if counted > 0 {
		v.ResetAfter = c.Start(l.W) + l.W - now
	}
	switch {
	case v.Admitted:
	case cost > l.N:
		v.RetryAfter = Never
	case c.Cur+cost <= l.N:
		// The weight of the previous window must fall. When the window is over,
		// Cur takes its place at full weight, and that fits.
		v.RetryAfter = c.Start(l.W) + decayTime(c.Prev, l.N-c.Cur-cost, l.W) - now
	default:
		// This window has no room until its end. In the next one the weight of Cur must fall.
		v.RetryAfter = c.Start(l.W) + l.W + decayTime(c.Cur, l.N-cost, l.W) - now
	}
	return v
}

// decayTime returns the least e at which weighted(prev, e, w) is at most room, where
// 0 <= room < prev. It solves the equation and then corrects the solution to what the
// doubles really say.
func decayTime(prev, room, w int64) int64 {
	e := w - int64(float64(w)*(float64(room+1)/float64(prev)))
	for weighted(prev, e-1, w) <= room {
		e--
	}
	for weighted(prev, e, w) > room {
		e++
	}
	return e
}

// counter is a Counter in the fields of a Log.
type counter Log

func init() { algorithms[core.SlidingCounter] = func(c *Count) algorithm { return (*counter)(&c.log) } }

func (s *counter) counter() Counter {
	return Counter{Index: s.first, Prev: s.last, Cur: int64(uint64(s.head) | uint64(s.entries)<<32)}
}

func (s *counter) set(c Counter) {
	s.first, s.last = c.Index, c.Prev
	s.head, s.entries = uint32(c.Cur), uint32(c.Cur>>32)
}

func (s *counter) minStamp(l Limit) int64 { return s.counter().Start(l.W) }

func (s *counter) decide(l Limit, now, stamp, cost int64) Verdict {
	return s.counter().At(stamp, l.W).Decide(l, now, stamp, cost)
}

func (s *counter) take(l Limit, now, cost int64) (v Verdict, words int) {
	c := s.counter().At(now, l.W)
	if v = c.Decide(l, now, now, cost); v.Admitted && cost > 0 {
		s.count(c, cost)
	}
	return v, 0
}

func (s *counter) prepare(Limit, int64, int64) (words int) { return 0 }

func (s *counter) add(l Limit, stamp, cost int64) {
	s.count(s.counter().At(stamp, l.W), cost)
}

// count makes s the counter c with cost more.
func (s *counter) count(c Counter, cost int64) {
	c.Cur = min(c.Cur+cost, maxCount) // a charge may exceed it
	s.set(c)
}

func (s *counter) giveBack(l Limit, at, _, units int64) (returned int64) {
	c := s.counter()
	switch i := at / l.W; {
	case i < c.Index-1:
		return units // they no longer count
	case i == c.Index-1:
		returned = min(c.Prev, units)
		c.Prev -= returned
	case i == c.Index:
		returned = min(c.Cur, units)
		c.Cur -= returned
	}
	s.set(c)
	return returned
}

func (s *counter) isEmpty(l Limit, now int64) bool { return s.counter().IsEmpty(now, l.W) }

func (s *counter) unitsAt(l Limit, now int64) int64 {
	return s.counter().At(now, l.W).Estimate(now, l.W)
}

func (s *counter) trim(Limit, int64) {}

// summarize counts a fixed window in the epoch in which it begins. For both windows that is one of the two newest
// epochs, since a Span is at least a window.
func (s *counter) summarize(b *Bound, now int64) (p EvictedCount) {
	c := s.counter().At(now, b.W)
	start := c.Start(b.W)
	p.add(b, now, start, c.Cur)
	p.add(b, now, start-b.W, c.Prev)
	return p
}

func (*counter) compact() {}

func (*counter) start(l Limit, at int64) int64 { return at - at%l.W }

// end returns the end of the fixed window, whose units have weight for a window after it.
func (*counter) end(l Limit, at int64) int64 { return at - at%l.W + l.W }

func (*counter) epoch(l Limit) int64 { return l.W }

func (*counter) decideEvicted(p EvictedCount, b *Bound, now, cost int64) Verdict {
	var c counter
	c.add(b.Limit, b.previousEnd(now), p.Older)
	c.add(b.Limit, now, p.Newer)
	v := c.decide(b.Limit, now, now, cost)
	if v.RetryAfter != 0 && v.RetryAfter != Never && b.Span != b.W {
		// The fixed window in which the epoch ends and the one after it.
		v.RetryAfter = b.end(b.End(b.EpochAt(now))) + b.W - now
	}
	return v
}

func (*counter) evictedUnits(b *Bound, cost int64) (Limit, int64) { return b.Limit, cost }

func (*counter) restoredWords(EvictedCount, int64) (words int) { return 0 }

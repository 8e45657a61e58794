package window

import "github.com/sashlimit/sash/core"

// Count holds the units of a client under a limit of any algorithm. The zero value counts
// nothing. The limit that a method is called with must be of the same algorithm each time,
// and of the same W but for a core.Bucket. A method panics for an algorithm that it does not know.
//
// A Count takes 40 bytes, and a ring besides if it is of a log. The numbers of the other
// algorithms stand in the fields of a [Log].
type Count struct{ log Log }

// room is an algorithm, and what a Count holds of it: each has one file, and is known by nothing else. The methods of
// Count, Limit and Past say what these do; the last ones do not look at what is counted.
type room interface {
	begun(l Limit) int64
	decide(l Limit, now, stamp, cost int64) Verdict
	take(l Limit, now, cost int64) (v Verdict, words int)
	prepare(l Limit, now, cost int64) (words int)
	add(l Limit, stamp, cost int64)
	giveBack(l Limit, at, now, cost, units int64) int64
	spent(l Limit, now int64) bool
	held(l Limit, now int64) int64
	trim(l Limit, now int64)
	coarsen()
	past(b *Bound, now int64) Past

	inPast(b *Bound, cost int64) (l Limit, units int64)
	begin(l Limit, at int64) int64
	end(l Limit, at int64) int64
	epoch(l Limit) int64
	decidePast(p Past, b *Bound, now, cost int64) Verdict
	restored(p Past, cost int64) (words int)
	dated() bool
}

// rooms has how each algorithm sees a Count. Each file adds its own.
var rooms [256]func(*Count) room

// Known reports whether there is such an algorithm.
func Known(a core.Algorithm) bool { return rooms[a] != nil }

// of returns the room of an algorithm, with what c holds.
func (c *Count) of(a core.Algorithm) room { return rooms[a](c) }

// nothing is a Count for the methods of a room that do not look at one.
var nothing Count

// room returns the room of the limit's algorithm, for methods that look at no Count.
func (l Limit) room() room { return nothing.of(l.Algorithm) }

// Dated reports whether each unit keeps the time at which it was counted, or that of its slot, or goes back without it.
func (l Limit) Dated() bool { return l.room().dated() }

// begin returns the time before which nothing more is counted, where something is at a time.
func (l Limit) begin(at int64) int64 { return l.room().begin(l, at) }

// end returns when units of a time are counted for the algorithm: they leave a window after that.
func (l Limit) end(at int64) int64 { return l.room().end(l, at) }

// Epoch returns the least Span of a [Bound] of the limit: the longest for which a unit counts, or half of that.
func (l Limit) Epoch() int64 { return l.room().epoch(l) }

// Clone returns a copy of c with a ring of its own.
func (c *Count) Clone() Count { return Count{c.log.Clone()} }

// Words returns the length of the ring, which is 0 where there is none.
func (c *Count) Words() int { return c.log.Words() }

// Begun returns the time before which nothing more is counted.
func (c *Count) Begun(l Limit) int64 { return c.of(l.Algorithm).begun(l) }

// Decide returns the verdict on a request of the given cost at now, which is counted at stamp: not before now and
// Begun.
func (c *Count) Decide(l Limit, now, stamp, cost int64) Verdict {
	return c.of(l.Algorithm).decide(l, now, stamp, cost)
}

// Take decides at now and counts at now what is admitted, where that needs no longer ring; else it counts nothing and
// returns how many words the ring must have: Decide, Prepare and Add in one, for callers whose clock never steps back.
func (c *Count) Take(l Limit, now, cost int64) (v Verdict, words int) {
	return c.of(l.Algorithm).take(l, now, cost)
}

// Prepare drops what no longer counts at now, and returns 0 if there is room for
// Add(_, _, cost), or else how many words the ring must have.
func (c *Count) Prepare(l Limit, now, cost int64) (words int) {
	return c.of(l.Algorithm).prepare(l, now, cost)
}

// Add counts cost units at stamp, for which Prepare has been called. If they do not
// fit, the ring grows.
func (c *Count) Add(l Limit, stamp, cost int64) { c.of(l.Algorithm).add(l, stamp, cost) }

// Return takes back up to units of a request that was counted at the stamp at, under the same
// limit, and returns how many of them count no more at now. Where nothing is counted, none of
// them do. units must be positive, and at most the cost of the request that is left.
func (c *Count) Return(l Limit, at, now, cost, units int64) int64 {
	own := c.of(l.Algorithm)
	if own.spent(l, now) || own.end(l, at) <= now-l.W {
		return units
	}
	return own.giveBack(l, at, now, cost, units)
}

// Spent reports whether nothing that was counted is left at now.
func (c *Count) Spent(l Limit, now int64) bool { return c.of(l.Algorithm).spent(l, now) }

// Units returns about how many units count at now. It does not fetch the ring.
func (c *Count) Units(l Limit, now int64) int64 { return c.of(l.Algorithm).held(l, now) }

// Trim makes a ring shorter that is much too long at now.
func (c *Count) Trim(l Limit, now int64) {
	if c.Words() > smallRing {
		c.of(l.Algorithm).trim(l, now)
	}
}

// Coarsen merges what a log has counted at neighbouring times, if that makes the ring
// shorter. Units count until later then, never until earlier.
func (c *Count) Coarsen(l Limit) { c.of(l.Algorithm).coarsen() }

// Past returns what is counted at now, by epochs.
func (c *Count) Past(b *Bound, now int64) Past { return c.of(b.Algorithm).past(b, now) }

// Restore gives an empty Count its past.
func (c *Count) Restore(b *Bound, p Past, now int64) {
	s, counted := c.of(b.Algorithm), p.counted(b, now)
	l, _ := s.inPast(b, 0)
	if counted.Older > 0 {
		s.add(l, b.older(now), counted.Older)
	}
	if counted.Newer > 0 {
		s.add(l, now, counted.Newer)
	}
}

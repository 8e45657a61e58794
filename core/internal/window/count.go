package window

import "github.com/sashlimit/sash/core"

// Count holds the units of a client under a limit of any algorithm. The zero value counts
// nothing. The limit that a method is called with must be of the same algorithm each time,
// and of the same W but for a core.Bucket. A method panics for an algorithm that it does not know.
//
// A Count takes 40 bytes, and a ring besides if it is of a log. The numbers of the other
// algorithms stand in the fields of a [Log].
type Count struct{ log Log }

// algorithm is a Count as one algorithm reads and changes it. Code outside an algorithm's files calls it through this
// interface. The methods of Count, Limit and EvictedCount document these methods; the second group does not look at the
// Count.
type algorithm interface {
	minStamp(l Limit) int64
	decide(l Limit, now, stamp, cost int64) Verdict
	take(l Limit, now, cost int64) (v Verdict, words int)
	prepare(l Limit, now, cost int64) (words int)
	add(l Limit, stamp, cost int64)
	giveBack(l Limit, at, cost, units int64) int64
	isEmpty(l Limit, now int64) bool
	unitsAt(l Limit, now int64) int64
	trim(l Limit, now int64)
	compact()
	summarize(b *Bound, now int64) EvictedCount

	evictedUnits(b *Bound, cost int64) (l Limit, units int64)
	start(l Limit, at int64) int64
	end(l Limit, at int64) int64
	epoch(l Limit) int64
	decideEvicted(p EvictedCount, b *Bound, now, cost int64) Verdict
	restoredWords(p EvictedCount, cost int64) (words int)
}

// algorithms is the table of algorithms. Each file registers its own.
var algorithms [256]func(*Count) algorithm

// Known reports whether there is such an algorithm.
func Known(a core.Algorithm) bool { return algorithms[a] != nil }

// of returns c as an algorithm reads it.
func (c *Count) of(a core.Algorithm) algorithm { return algorithms[a](c) }

// empty is for the methods of an algorithm that do not look at a Count.
var empty Count

// algorithm returns the limit's algorithm, for methods that do not look at a Count.
func (l Limit) algorithm() algorithm { return empty.of(l.Algorithm) }

// start returns the start of the fixed window, or of the slot of a CoarseLog, in which a unit of a time is counted. For
// other algorithms it is the time itself.
func (l Limit) start(at int64) int64 { return l.algorithm().start(l, at) }

// end returns the end of the fixed window or slot: a unit counts for a window after it.
func (l Limit) end(at int64) int64 { return l.algorithm().end(l, at) }

// Epoch returns the least Span of a [Bound] of the limit. No unit counts after the end of the next epoch.
func (l Limit) Epoch() int64 { return l.algorithm().epoch(l) }

// Clone returns a copy of c with a ring of its own.
func (c *Count) Clone() Count { return Count{c.log.Clone()} }

// Words returns the length of the ring, which is 0 where there is none.
func (c *Count) Words() int { return c.log.Words() }

// MinStamp returns the earliest stamp that a new request can have.
func (c *Count) MinStamp(l Limit) int64 { return c.of(l.Algorithm).minStamp(l) }

// Decide returns the verdict on a request of the given cost at now. An admitted request is counted at stamp, which is
// not before now and MinStamp.
func (c *Count) Decide(l Limit, now, stamp, cost int64) Verdict {
	return c.of(l.Algorithm).decide(l, now, stamp, cost)
}

// Take is Decide, Prepare and Add at now in one, for callers whose clock never steps back. If an admitted request needs
// a longer ring, Take counts nothing and returns the length.
func (c *Count) Take(l Limit, now, cost int64) (v Verdict, words int) {
	return c.of(l.Algorithm).take(l, now, cost)
}

// Prepare drops expired units. It returns 0 if there is room for Add(_, _, cost), or else the length that the ring must
// have.
func (c *Count) Prepare(l Limit, now, cost int64) (words int) {
	return c.of(l.Algorithm).prepare(l, now, cost)
}

// Add counts cost units at stamp, after Prepare for the same cost. If they do not fit, the ring grows.
func (c *Count) Add(l Limit, stamp, cost int64) { c.of(l.Algorithm).add(l, stamp, cost) }

// Return takes back units of a request that was counted at the stamp at under the same limit. cost is what is left of
// the request's cost; units is positive and at most cost. Return returns the number of the units that no longer count
// at now: all of them where nothing is counted.
func (c *Count) Return(l Limit, at, now, cost, units int64) int64 {
	own := c.of(l.Algorithm)
	if own.isEmpty(l, now) || own.end(l, at) <= now-l.W {
		return units
	}
	return own.giveBack(l, at, cost, units)
}

// IsEmpty reports whether nothing counts at now.
func (c *Count) IsEmpty(l Limit, now int64) bool { return c.of(l.Algorithm).isEmpty(l, now) }

// Units returns about the number of units that count at now. It does not read the ring.
func (c *Count) Units(l Limit, now int64) int64 { return c.of(l.Algorithm).unitsAt(l, now) }

// Trim shortens a ring that is much too long at now.
func (c *Count) Trim(l Limit, now int64) {
	if c.Words() > smallRing {
		c.of(l.Algorithm).trim(l, now)
	}
}

// Compact merges neighbouring entries of a log, if that makes the ring shorter. Units may then expire later, never
// earlier.
func (c *Count) Compact(l Limit) { c.of(l.Algorithm).compact() }

// Summarize returns the units that count at now, by epochs.
func (c *Count) Summarize(b *Bound, now int64) EvictedCount {
	return c.of(b.Algorithm).summarize(b, now)
}

// Restore makes an empty Count hold an EvictedCount.
func (c *Count) Restore(b *Bound, p EvictedCount, now int64) {
	own, live := c.of(b.Algorithm), p.unexpired(b, now)
	l, _ := own.evictedUnits(b, 0)
	if live.Older > 0 {
		own.add(l, b.previousEnd(now), live.Older)
	}
	if live.Newer > 0 {
		own.add(l, now, live.Newer)
	}
}

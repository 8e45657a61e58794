package window

import "strconv"

// Kind is the algorithm of a [Count]. It has the number that package core gives the
// algorithm; TestEveryAlgorithm in memstore holds numbers and names together.
type Kind uint8

const (
	SlidingLog Kind = iota
	SlidingCounter
	CoarseLog
)

var names = [...]string{SlidingLog: "log", SlidingCounter: "counter", CoarseLog: "coarse"}

// String returns the name that package core has for the algorithm.
func (k Kind) String() string {
	if k.Known() {
		return names[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Known reports whether there is such an algorithm.
func (k Kind) Known() bool { return int(k) < len(names) }

// Count holds the units of a client under a limit of any Kind. The zero value counts
// nothing. The limit that a method is called with must be of the same Kind each time,
// and of the same W. A method panics for a Kind that it does not know.
//
// A Count takes 40 bytes, and a ring besides if it is of a log. The numbers of the other
// kinds stand in the fields of a [Log].
type Count struct{ log Log }

// state is a Count of one Kind. The methods of Count say what these do.
type state interface {
	decide(l Limit, now, cost int64) Verdict
	prepare(l Limit, now, cost int64) (words int)
	add(l Limit, now, cost int64)
	giveBack(l Limit, at, now, units int64) int64
	spent(l Limit, now int64) bool
	held(l Limit, now int64) int64
	trim(l Limit, now int64)
	past(b *Bound, now int64) Past
}

// of returns the state of a Count.
func (c *Count) of(k Kind) state {
	switch k {
	case SlidingLog:
		return &c.log
	case SlidingCounter:
		return (*stored)(&c.log)
	case CoarseLog:
		return (*coarse)(&c.log)
	}
	panic("sash: unknown algorithm: " + k.String())
}

// Words returns the length of the ring, which is 0 where there is none.
func (c *Count) Words() int { return c.log.Words() }

// Decide returns the verdict on a request of the given cost at now, which is not before
// what is counted.
func (c *Count) Decide(l Limit, now, cost int64) Verdict { return c.of(l.Kind).decide(l, now, cost) }

// Prepare drops what no longer counts at now, and returns 0 if there is room for
// Add(_, _, cost), or else how many words the ring must have.
func (c *Count) Prepare(l Limit, now, cost int64) (words int) {
	return c.of(l.Kind).prepare(l, now, cost)
}

// Add counts cost units at now, for which Prepare has been called. If they do not
// fit, the ring grows.
func (c *Count) Add(l Limit, now, cost int64) { c.of(l.Kind).add(l, now, cost) }

// Return takes back up to units that were counted at the stamp at, and returns how many
// of them count no more at now. Where nothing is counted, none of them do. units must be
// positive.
func (c *Count) Return(l Limit, at, now, units int64) int64 {
	if c.Spent(l, now) || l.end(at) <= now-l.W && l.Kind != SlidingCounter {
		return units
	}
	return c.of(l.Kind).giveBack(l, at, now, units)
}

// Spent reports whether nothing that was counted is left at now.
func (c *Count) Spent(l Limit, now int64) bool { return c.of(l.Kind).spent(l, now) }

// Units returns about how many units count at now. It does not fetch the ring.
func (c *Count) Units(l Limit, now int64) int64 { return c.of(l.Kind).held(l, now) }

// Trim makes a ring shorter that is much too long at now.
func (c *Count) Trim(l Limit, now int64) {
	if c.Words() > smallRing {
		c.of(l.Kind).trim(l, now)
	}
}

// Coarsen merges what a log has counted at neighbouring times, if that makes the ring
// shorter. Units count until later then, never until earlier.
func (c *Count) Coarsen(l Limit) {
	if l.Kind == SlidingLog {
		c.log.Coarsen()
	}
}

// Past returns what is counted at now, by epochs.
func (c *Count) Past(b *Bound, now int64) Past { return c.of(b.Kind).past(b, now) }

// Restore gives an empty Count its past.
func (c *Count) Restore(b *Bound, p Past, now int64) {
	s, counted := c.of(b.Kind), p.counted(b, now)
	if counted.Older > 0 {
		s.add(b.Limit, b.older(now), counted.Older)
	}
	if counted.Newer > 0 {
		s.add(b.Limit, now, counted.Newer)
	}
}

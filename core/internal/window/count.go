package window

import "strconv"

// Kind is the algorithm of a [Count]. Every method that depends on it is in this file,
// and panics for a Kind that it does not know.
type Kind uint8

// A Kind has the number that package core gives the algorithm. TestEveryAlgorithm in
// memstore holds numbers and names together.
const (
	SlidingLog Kind = iota
	SlidingCounter
)

// String returns the name that package core has for the algorithm, or "" if there is
// no such algorithm.
func (k Kind) String() string {
	switch k {
	case SlidingLog:
		return "log"
	case SlidingCounter:
		return "counter"
	}
	return ""
}

// Known reports whether there is such an algorithm.
func (k Kind) Known() bool { return k.String() != "" }

// unknown returns the panic of a method for a Kind that it does not know.
type unknown Kind

func (u unknown) Error() string { return "sash: unknown algorithm: Kind(" + strconv.Itoa(int(u)) + ")" }

// Count holds the units of a client under a limit of any Kind. The zero value counts
// nothing. The limit that a method is called with must be of the same Kind each time,
// and of the same W.
//
// A Count takes 40 bytes, and a ring besides if it is of a log. The three numbers of a
// [Counter] stand where a [Log] has first, last, and head with entries.
type Count struct{ log Log }

func (c *Count) counter() Counter {
	cur := uint64(c.log.head) | uint64(c.log.entries)<<32
	return Counter{Index: c.log.first, Prev: c.log.last, Cur: int64(cur)}
}

func (c *Count) setCounter(n Counter) {
	c.log.first, c.log.last = n.Index, n.Prev
	c.log.head, c.log.entries = uint32(n.Cur), uint32(uint64(n.Cur)>>32)
}

// Words returns the length of the ring, which is 0 for a Kind that has none.
func (c *Count) Words() int { return c.log.Words() }

// Decide returns the verdict on a request of the given cost at now, which is not before
// what is counted.
func (c *Count) Decide(l Limit, now, cost int64) Verdict {
	switch l.Kind {
	case SlidingLog:
		return c.log.Facts(l, now, cost).Decide(l, now, now, cost)
	case SlidingCounter:
		return c.counter().At(now, l.W).Decide(l, now, now, cost)
	}
	panic(unknown(l.Kind))
}

// Prepare drops what no longer counts at now, and returns 0 if there is room for
// Add(_, _, cost), or else how many words the ring must have.
func (c *Count) Prepare(l Limit, now, cost int64) (words int) {
	switch l.Kind {
	case SlidingLog:
		c.log.Expire(now - l.W)
		if c.log.Fits(cost) {
			return 0
		}
		return c.log.Grown(cost)
	case SlidingCounter:
		return 0
	}
	panic(unknown(l.Kind))
}

// Add counts cost units at now, for which Prepare has been called. If they do not
// fit, the ring grows.
func (c *Count) Add(l Limit, now, cost int64) {
	switch l.Kind {
	case SlidingLog:
		c.log.Push(now, cost)
	case SlidingCounter:
		n := c.counter().At(now, l.W)
		n.Cur = min(n.Cur+cost, maxCount) // a charge may be more
		c.setCounter(n)
	default:
		panic(unknown(l.Kind))
	}
}

// Return takes back up to units that were counted at the stamp at, and returns how many
// of them count no more at now. Where nothing is counted, none of them do. units must be
// positive.
func (c *Count) Return(l Limit, at, now, units int64) int64 {
	if c.Spent(l, now) {
		return units
	}
	switch l.Kind {
	case SlidingLog:
		if at <= now-l.W {
			return units
		}
		return c.log.Return(at, units)
	case SlidingCounter:
		n, returned := c.counter().Return(l.W, at, now, units)
		c.setCounter(n)
		return returned
	}
	panic(unknown(l.Kind))
}

// Spent reports whether nothing that was counted is left at now.
func (c *Count) Spent(l Limit, now int64) bool {
	switch l.Kind {
	case SlidingLog:
		return c.log.last <= now-l.W
	case SlidingCounter:
		return c.counter().Over(now, l.W)
	}
	panic(unknown(l.Kind))
}

// Units returns about how many units count at now. It does not fetch the ring.
func (c *Count) Units(l Limit, now int64) int64 {
	switch l.Kind {
	case SlidingLog:
		return c.log.held()
	case SlidingCounter:
		return c.counter().At(now, l.W).Counted(now, l.W)
	}
	panic(unknown(l.Kind))
}

// Trim makes a ring shorter that is much too long at now.
func (c *Count) Trim(l Limit, now int64) {
	if c.Words() > smallRing {
		c.trim(l, now)
	}
}

func (c *Count) trim(l Limit, now int64) {
	switch l.Kind {
	case SlidingLog:
		c.log.Expire(now - l.W)
		if c.log.first <= now-l.W/2 { // else it may be about to fill again
			c.log.Shrink()
		}
	case SlidingCounter:
	default:
		panic(unknown(l.Kind))
	}
}

// Coarsen merges what was counted at neighbouring times, if that makes the ring
// shorter. Units count until later then, never until earlier.
func (c *Count) Coarsen(l Limit) {
	switch l.Kind {
	case SlidingLog:
		c.log.Coarsen()
	case SlidingCounter:
	default:
		panic(unknown(l.Kind))
	}
}

// Past returns what is counted at now, by epochs.
func (c *Count) Past(b *Bound, now int64) Past {
	switch b.Kind {
	case SlidingLog:
		return c.log.past(b, now)
	case SlidingCounter:
		return c.counter().past(b, now)
	}
	panic(unknown(b.Kind))
}

// Restore gives an empty Count its past.
func (c *Count) Restore(b *Bound, p Past, now int64) {
	switch b.Kind {
	case SlidingLog:
		c.log.restore(b, p, now)
	case SlidingCounter:
		c.setCounter(p.counter(b, now))
	default:
		panic(unknown(b.Kind))
	}
}

// Decide returns the verdict on a client of which p alone is known. A client that is
// refused and waits for RetryAfter is admitted by p as it stands: that is as late as a
// window after the end of the epoch.
func (p Past) Decide(b *Bound, now, cost int64) Verdict {
	switch b.Kind {
	case SlidingLog:
		return p.decideLog(b, now, cost)
	case SlidingCounter:
		return p.decideCounter(b, now, cost)
	}
	panic(unknown(b.Kind))
}

// Add counts a request in the epoch in which [Count.Past] has the units of a Count: of a
// counter that is the one in which its fixed window began. Otherwise a client of both
// would have the units twice.
func (p *Past) Add(b *Bound, now, cost int64) {
	switch b.Kind {
	case SlidingLog:
		p.add(b, now, now, cost)
	case SlidingCounter:
		p.add(b, now, now-now%b.W, cost)
	default:
		panic(unknown(b.Kind))
	}
}

// Words returns how long a ring gets at most in which p is restored and a request of
// the given cost is counted.
func (p Past) Words(k Kind, cost int64) int {
	switch k {
	case SlidingLog:
		if p.None() && cost == 1 {
			return 0
		}
		return words(2, true) // two entries of any cost, and a third
	case SlidingCounter:
		return 0
	}
	panic(unknown(k))
}

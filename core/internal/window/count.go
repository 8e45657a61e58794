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

// unknown is what a method panics with for a Kind that it does not know.
type unknown Kind

func (u unknown) Error() string { return "sash: unknown algorithm: Kind(" + strconv.Itoa(int(u)) + ")" }

// Count is what a client has counted under a limit of any Kind. The zero value counts
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

// Clone returns a copy with a ring of its own.
func (c *Count) Clone() Count { return Count{c.log.Clone()} }

// Begun returns the time before which nothing more is counted: of the newest entry of
// a log, or when the fixed window of a counter began.
func (c *Count) Begun(l Limit) int64 {
	switch l.Kind {
	case SlidingLog:
		return c.log.last
	case SlidingCounter:
		return c.counter().Start(l.W)
	}
	panic(unknown(l.Kind))
}

// Decide returns the verdict on a request of the given cost at now, which is counted
// at stamp: the newest of now and what Begun returns for any limit of the decision.
func (c *Count) Decide(l Limit, now, stamp, cost int64) Verdict {
	switch l.Kind {
	case SlidingLog:
		return c.log.Facts(l, now, cost).Decide(l, now, stamp, cost)
	case SlidingCounter:
		return c.counter().At(stamp, l.W).Decide(l, now, stamp, cost)
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

// Add counts cost units at stamp, for which Prepare has been called. If they do not
// fit, the ring grows.
func (c *Count) Add(l Limit, stamp, cost int64) {
	switch l.Kind {
	case SlidingLog:
		c.log.Push(stamp, cost)
	case SlidingCounter:
		n := c.counter().At(stamp, l.W)
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

// Rewind has what is counted too far ahead of now count from now on.
func (c *Count) Rewind(l Limit, now int64) {
	switch l.Kind {
	case SlidingLog:
		c.log.Rewind(now)
	case SlidingCounter:
		c.setCounter(c.counter().Rewind(now, l.W))
	default:
		panic(unknown(l.Kind))
	}
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
		n := c.counter()
		stamp := max(now, n.Start(l.W))
		return n.At(stamp, l.W).Counted(stamp, l.W)
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

// Restore gives an empty Count its past, of which a request is made.
func (c *Count) Restore(b *Bound, p Past, r *Request) {
	switch b.Kind {
	case SlidingLog:
		c.log.restore(b, p, r)
	case SlidingCounter:
		c.setCounter(p.counter(b, r.Latest))
	default:
		panic(unknown(b.Kind))
	}
}

// Begun is [Count.Begun] of a Count that would be restored from p.
func (p Past) Begun(b *Bound, r *Request) int64 {
	switch b.Kind {
	case SlidingLog:
		return p.logBegun(b, r)
	case SlidingCounter:
		return p.counter(b, r.Latest).Start(b.W)
	}
	panic(unknown(b.Kind))
}

// Decide returns the verdict on a client of which p alone is known. A client that is
// refused and waits for RetryAfter is admitted by p as it stands: that is as late as a
// window after the end of the epoch.
func (p Past) Decide(b *Bound, r *Request) Verdict {
	switch b.Kind {
	case SlidingLog:
		return p.decideLog(b, r)
	case SlidingCounter:
		return p.decideCounter(b, r)
	}
	panic(unknown(b.Kind))
}

// Add counts a request in the epoch in which [Count.Past] has the units of a Count.
// Otherwise a client of both would have the units twice.
func (p *Past) Add(b *Bound, r *Request) {
	switch b.Kind {
	case SlidingLog:
		p.add(b.Epoch(r.Stamp), r.Cost)
	case SlidingCounter:
		p.add(b.Epoch(r.Stamp-r.Stamp%b.W), r.Cost)
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

package window

import "github.com/sashlimit/sash/core"

// Slots is the number of slots in a window of a CoarseLog.
const Slots = 60

// Slot returns the length of the slots of a CoarseLog.
func (l Limit) Slot() int64 { return (l.W + Slots - 1) / Slots }

// SlotEnd returns the last moment of the slot that holds a time.
func (l Limit) SlotEnd(at int64) int64 { return at - at%l.Slot() + l.Slot() - 1 }

// coarse is a log of slots, in the fields of a Log. Each slot has its units, whose stamp is the end of the slot. Slots
// are consecutive, from the oldest to the newest with units: first holds the units of all slots, last is the end of
// the newest, and entries is the number of slots. A single slot needs no ring.
type coarse Log

func init() { algorithms[core.CoarseLog] = func(c *Count) algorithm { return (*coarse)(&c.log) } }

func (c *coarse) log() *Log { return (*Log)(c) }

// in returns the units in the i-th oldest slot.
func (c *coarse) in(i uint32) int64 {
	if c.words == 0 {
		return c.first
	}
	return c.log().ring()[c.log().at(i)]
}

// count adds units, which may be negative, to the i-th oldest slot.
func (c *coarse) count(i uint32, units int64) {
	c.first += units
	if c.words != 0 {
		c.log().ring()[c.log().at(i)] += units
	}
}

// oldest returns the end of the oldest slot.
func (c *coarse) oldest(l Limit) int64 { return c.last - int64(c.entries-1)*l.Slot() }

// hasExpired reports whether the oldest slot has expired.
func (c *coarse) hasExpired(l Limit, now int64) bool { return c.entries > 0 && c.oldest(l) <= now-l.W }

// expire drops the slots that have expired.
func (c *coarse) expire(l Limit, now int64) {
	if c.isEmpty(l, now) {
		c.first, c.entries = 0, 0
	}
	for c.hasExpired(l, now) {
		c.drop()
	}
}

// drop drops the oldest slot, and empty slots after it. The newest slot is not empty.
func (c *coarse) drop() {
	for c.first -= c.in(0); ; {
		c.head = c.log().at(1)
		if c.entries--; c.in(0) > 0 {
			return
		}
	}
}

// stamp returns the end of the slot in which a request at now is counted. It divides only where it must: that is slow.
func (c *coarse) stamp(l Limit, now int64) int64 {
	if now <= c.last {
		return c.last
	}
	return l.SlotEnd(now)
}

func (c *coarse) decide(l Limit, now, stamp, cost int64) Verdict {
	if c.hasExpired(l, now) {
		copied := *c // only a request that is counted drops slots
		copied.expire(l, now)
		return copied.check(l, now, stamp, cost)
	}
	return c.check(l, now, stamp, cost)
}

// check is decide where no slot has expired.
func (c *coarse) check(l Limit, now, stamp, cost int64) Verdict {
	f := LogFacts{Units: c.first, Oldest: c.oldest(l)}
	f.Expiring = f.Oldest
	if excess := l.Excess(f.Units, cost); excess > 0 && cost <= l.N {
		i := uint32(0) // the slot of the unit that must expire
		for excess -= c.in(0); excess > 0; excess -= c.in(i) {
			i++
		}
		f.Expiring += int64(i) * l.Slot()
	}
	return f.Decide(l, now, c.stamp(l, stamp), cost)
}

func (c *coarse) take(l Limit, now, cost int64) (v Verdict, words int) {
	c.expire(l, now)
	if v = c.check(l, now, now, cost); v.Admitted && cost > 0 {
		if words = c.prepare(l, now, cost); words == 0 {
			c.add(l, now, cost)
		}
	}
	return v, words
}

func (c *coarse) prepare(l Limit, now, _ int64) (words int) {
	if c.expire(l, now); c.words != 0 || c.entries == 0 || now <= c.last {
		return 0
	}
	return Slots + 1
}

// add counts at most maxCount in a slot: then every limit refuses.
func (c *coarse) add(l Limit, stamp, cost int64) {
	end := c.stamp(l, stamp)
	if c.entries > 0 && end > c.last {
		// Only units that are counted ahead of the clock need more slots than a window has.
		slots := int(c.entries) + int((end-c.last)/l.Slot())
		if c.words == 0 || slots > c.log().Words() {
			c.log().move(max(Slots+1, slots), false) // with first in it
		}
	}
	if c.entries == 0 {
		c.last = end - l.Slot()
	}
	for ; c.last < end; c.last += l.Slot() {
		if c.entries++; c.words != 0 {
			c.log().ring()[c.log().at(c.entries-1)] = 0
		}
	}
	c.count(c.entries-1, min(cost, maxCount-c.in(c.entries-1)))
}

func (c *coarse) giveBack(l Limit, at, _, units int64) int64 {
	end := l.SlotEnd(at)
	if end > c.last || end < c.oldest(l) {
		return 0
	}
	i := c.entries - 1 - uint32((c.last-end)/l.Slot())
	units = min(units, c.in(i))
	if c.count(i, -units); c.first == 0 {
		c.last, c.entries = 0, 0
		return units
	}
	for ; c.in(c.entries-1) == 0; c.entries-- {
		c.last -= l.Slot()
	}
	if c.in(0) == 0 {
		c.drop()
	}
	return units
}

func (c *coarse) isEmpty(l Limit, now int64) bool { return c.last <= now-l.W }

func (c *coarse) unitsAt(Limit, int64) int64 { return c.first }

func (c *coarse) trim(l Limit, now int64) {
	if c.expire(l, now); c.entries <= 1 {
		c.log().setRing(nil)
	}
}

func (c *coarse) summarize(b *Bound, now int64) (p EvictedCount) {
	live := *c
	live.expire(b.Limit, now)
	for i := range live.entries {
		p.add(b, now, b.start(live.oldest(b.Limit)+int64(i)*b.Slot()), live.in(i))
	}
	return p
}

func (c *coarse) minStamp(l Limit) int64 {
	if c.entries == 0 {
		return 0
	}
	return c.last - l.Slot() + 1
}

func (*coarse) compact() {}

func (*coarse) start(l Limit, at int64) int64 { return l.SlotEnd(at) - l.Slot() + 1 }

func (*coarse) end(l Limit, at int64) int64 { return l.SlotEnd(at) }

func (*coarse) epoch(l Limit) int64 { return l.W + l.Slot() }

func (*coarse) decideEvicted(p EvictedCount, b *Bound, now, cost int64) Verdict {
	return p.decideTimestamped(b, now, cost)
}

func (*coarse) evictedUnits(b *Bound, cost int64) (Limit, int64) { return b.Limit, cost }

func (*coarse) restoredWords(p EvictedCount, _ int64) int {
	if p.IsZero() {
		return 0
	}
	return Slots + 1
}

package window

import "github.com/sashlimit/sash/core"

// Slots is the number of slots that a window of a CoarseLog has.
const Slots = 60

// Slot returns the length of the slots of a CoarseLog.
func (l Limit) Slot() int64 { return (l.W + Slots - 1) / Slots }

// SlotEnd returns the last moment of the slot that holds a time.
func (l Limit) SlotEnd(at int64) int64 { return at - at%l.Slot() + l.Slot() - 1 }

// coarse is a log of slots, each with the units that were counted in it, and the end of the slot as the stamp of all.
// No slot between the oldest and the newest is left out, so the end of the newest gives the ends of all. In the
// fields of a Log, first holds the units of all slots, last is the end of the newest, and entries is the number of
// slots. A single slot needs no ring.
type coarse Log

func init() { rooms[core.CoarseLog] = func(c *Count) room { return (*coarse)(&c.log) } }

func (c *coarse) log() *Log { return (*Log)(c) }

// in returns the units in the i-th oldest slot.
func (c *coarse) in(i uint32) int64 {
	if c.words == 0 {
		return c.first
	}
	return c.log().ring()[c.log().at(i)]
}

// count adds units to the i-th oldest slot, or takes them away if they are negative.
func (c *coarse) count(i uint32, units int64) {
	c.first += units
	if c.words != 0 {
		c.log().ring()[c.log().at(i)] += units
	}
}

// oldest returns the end of the oldest slot.
func (c *coarse) oldest(l Limit) int64 { return c.last - int64(c.entries-1)*l.Slot() }

// stale reports whether a slot counts no more at now.
func (c *coarse) stale(l Limit, now int64) bool { return c.entries > 0 && c.oldest(l) <= now-l.W }

// expire drops what counts no more at now.
func (c *coarse) expire(l Limit, now int64) {
	if c.spent(l, now) {
		c.first, c.entries = 0, 0
	}
	for c.stale(l, now) {
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

// stamp returns the end of the slot in which a request at now is counted. A division is dear.
func (c *coarse) stamp(l Limit, now int64) int64 {
	if now <= c.last {
		return c.last
	}
	return l.SlotEnd(now)
}

func (c *coarse) decide(l Limit, now, stamp, cost int64) Verdict {
	if c.stale(l, now) {
		copied := *c // a request that is not counted drops nothing
		copied.expire(l, now)
		return copied.judge(l, now, stamp, cost)
	}
	return c.judge(l, now, stamp, cost)
}

// judge is decide where all slots count.
func (c *coarse) judge(l Limit, now, stamp, cost int64) Verdict {
	f := LogFacts{Units: c.first, Oldest: c.oldest(l)}
	f.Leaver = f.Oldest
	if excess := l.Excess(f.Units, cost); excess > 0 && cost <= l.N {
		f.Leaver += c.leaver(excess) * l.Slot()
	}
	return f.Decide(l, now, c.stamp(l, stamp), cost)
}

// leaver returns the distance, in slots, from the oldest slot to the one that holds the number-th oldest unit.
func (c *coarse) leaver(number int64) (slots int64) {
	i := uint32(0)
	for number -= c.in(0); number > 0; number -= c.in(i) {
		i++
	}
	return int64(i)
}

func (c *coarse) take(l Limit, now, cost int64) (v Verdict, words int) {
	c.expire(l, now)
	if v = c.judge(l, now, now, cost); v.Admitted && cost > 0 {
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

// add lets a slot hold maxCount, by which every limit refuses.
func (c *coarse) add(l Limit, stamp, cost int64) {
	end := c.stamp(l, stamp)
	if c.entries > 0 && end > c.last {
		// More slots than a window has are needed only for units that are counted ahead of the clock.
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

func (c *coarse) giveBack(l Limit, at, _, _, units int64) int64 {
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

func (c *coarse) spent(l Limit, now int64) bool { return c.last <= now-l.W }

func (c *coarse) held(Limit, int64) int64 { return c.first }

func (c *coarse) trim(l Limit, now int64) {
	if c.expire(l, now); c.entries <= 1 {
		c.log().setRing(nil)
	}
}

func (c *coarse) past(b *Bound, now int64) (p Past) {
	live := *c
	live.expire(b.Limit, now)
	for i := range live.entries {
		p.add(b, now, b.begin(live.oldest(b.Limit)+int64(i)*b.Slot()), live.in(i))
	}
	return p
}

func (c *coarse) begun(l Limit) int64 {
	if c.entries == 0 {
		return 0
	}
	return c.last - l.Slot() + 1
}

func (*coarse) coarsen() {}

func (*coarse) begin(l Limit, at int64) int64 { return l.SlotEnd(at) - l.Slot() + 1 }

func (*coarse) end(l Limit, at int64) int64 { return l.SlotEnd(at) }

func (*coarse) epoch(l Limit) int64 { return l.W + l.Slot() }

func (*coarse) decidePast(p Past, b *Bound, now, cost int64) Verdict {
	return p.decideDated(b, now, cost)
}

func (*coarse) inPast(b *Bound, cost int64) (Limit, int64) { return b.Limit, cost }

func (*coarse) restored(p Past, _ int64) int {
	if p.None() {
		return 0
	}
	return Slots + 1
}

func (*coarse) dated() bool { return true }

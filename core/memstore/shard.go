package memstore

import (
	"sync"
	"unsafe"
)

// shard is a part of the keys under a lock of its own. All limits of a client
// are in the same shard, so that a decision takes one lock. Every method needs
// sh.mu to be held.
type shard struct {
	// One cache line, up to the list of chunks: most decisions need no other. Each line that is written moves between
	// processors that decide in turns.
	mu            sync.Mutex
	now           int64  // the latest time that the clock has shown here, or 0
	due           uint32 // slots that sweep has to look at, in eighths
	decisions     uint8  // counts decisions; every eighth updates recentNewKeys
	newKeys       uint8  // new keys without room, since that update
	recentNewKeys uint8  // new keys of about the last 64 decisions before that
	table
	sketch    *sketch // of the clients that were evicted; nil if none were
	store     *Store
	evictNext int // where eviction looks next
	sweepNext int // where sweep looks next

	// The next cache line is rarely written: it separates the locks of neighbours.
	own, large int64 // bytes without the sketch's: large is long rings, own all else
	events     events
	_          [16]byte
}

const shardBytes = int64(unsafe.Sizeof(shard{}))

// need is memory that a client lacks.
type need struct {
	slots int
	rings int64 // bytes
}

// grow makes the memory of n available, and reports whether it could.
func (sh *shard) grow(n need) bool {
	for range n.slots {
		sh.migrateSome()
	}
	slots, now := sh.n+n.slots, sh.layout()
	index, to := grownIndex(len(sh.index), slots), layoutOf(max(slots, now.slots()))
	bytes := to.bytes() - now.bytes() + n.rings
	if index > len(sh.index) {
		bytes += int64(index) * 4
	}
	if slots > maxSlots || !sh.reserve(bytes) {
		return false
	}
	if to != now {
		sh.setLayout(to)
	}
	if index > len(sh.index) {
		for sh.old != nil {
			sh.migrateSome()
		}
		sh.reindex(index)
	}
	return true
}

// migrateSome moves some entries of the old index, if there is one, and gives its memory back when it is empty.
func (sh *shard) migrateSome() {
	if sh.old != nil {
		sh.reserve(-4 * int64(sh.migrate()))
	}
}

// forget removes slot i and gives its memory back.
func (sh *shard) forget(i int) {
	ring := ringBytes(&sh.slot(i).count)
	sh.remove(i)
	sh.migrateSome()
	sh.resizeRing(ring, 0)
	// Half a chunk stays free, so that one key does not make a chunk come and go.
	sh.release(chunkSlots / 2)
}

// release gives back the memory of free slots but for some to keep, and reports whether there was any.
func (sh *shard) release(keep int) bool {
	now, to := sh.layout(), layoutOf(sh.n+keep)
	if to.slots() >= now.slots() {
		return false
	}
	sh.setLayout(to)
	sh.reserve(to.bytes() - now.bytes())
	small := shrunkIndex(len(sh.index), sh.n)
	if sh.old == nil && small < len(sh.index) && sh.reserve(int64(small)*4) {
		sh.reindex(small)
	}
	return true
}

// isUnused reports whether the removal of a slot changes nothing: no unit counts, and
// the slot overrides no units of the sketch that still count.
func (sh *shard) isUnused(at *slot, now int64) bool {
	b := sh.store.rules.of(at)
	return at.count.IsEmpty(b.Limit, now) &&
		(!at.is(overrides) || sh.sketch.estimate(b, at.hash, at.ident, now).IsZero())
}

// sweepSlots is the number of neighbouring slots that a sweep looks at: one each time
// would cost more. A decision adds an eighth of a slot to due. A new slot adds a whole
// one, so that expired slots go as fast as new ones come. So does a decision after a
// sweep that has freed a slot, since more may have expired.
const (
	sweepSlots = 8
	sweepDue   = 8 * sweepSlots // in eighths
)

// floodThreshold is the number of new keys in about 64 decisions that make a flood.
const floodThreshold = 48

// tick counts a decision. Every eighth updates recentNewKeys, and some sweep.
func (sh *shard) tick(now int64) {
	if sh.decisions++; sh.decisions%8 == 0 {
		sh.recentNewKeys += sh.newKeys - sh.recentNewKeys/8
		sh.newKeys = 0
	}
	if sh.due++; sh.due >= sweepDue {
		sh.due -= sweepDue
		if sh.sweep(now) {
			sh.due = max(sh.due, sweepDue-sweepSlots)
		}
	}
}

// sweep removes expired slots of the next few, and reports whether it has removed one. It goes round all slots, so that
// clients that do not come back do not stay.
func (sh *shard) sweep(now int64) (freed bool) {
	sh.migrateSome()
	for range min(sweepSlots, sh.n) {
		if sh.sweepNext >= sh.n {
			sh.sweepNext = 0
		}
		if sh.clean(sh.sweepNext, now) {
			freed = true // another slot has moved here
		} else {
			sh.sweepNext++
		}
	}
	if sh.sketch != nil && now >= sh.sketch.until {
		sh.sketch = nil
	}
	return freed
}

// clean removes slot i if it is unused, and else shortens a ring that is much too
// long.
func (sh *shard) clean(i int, now int64) (removed bool) {
	at := sh.slot(i)
	if sh.isUnused(at, now) {
		sh.forget(i)
		return true
	}
	ring := ringBytes(&at.count)
	at.count.Trim(sh.store.rules.of(at).Limit, now)
	sh.resizeRing(ring, ringBytes(&at.count))
	return false
}

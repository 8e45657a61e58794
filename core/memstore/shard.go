package memstore

import (
	"sync"
	"unsafe"
)

// shard is a part of the keys under a lock of its own. All limits of a client
// are in the same shard, so that a decision takes one lock. Every method needs
// sh.mu to be held.
type shard struct {
	// A line of the cache, up to the list of chunks: most decisions need no other one. Where two processors decide in
	// turns, each line that is written goes from one to the other.
	mu        sync.Mutex
	now       int64  // the latest time that the clock has shown here, or 0
	due       uint32 // slots that sweep is to look at, in eighths
	asked     uint8  // decisions, to look for a flood now and then
	strangers uint8  // of them since it was looked for, of clients for which there was no room
	recent    uint8  // strangers of about 64 decisions before that
	table
	sketch *sketch // of the clients that were evicted; nil if none were
	store  *Store
	next   int // where eviction looks next
	hand   int // where sweep looks next

	// Together a line of the cache, rarely written: it keeps a neighbour's lock away.
	own, large int64 // bytes, without the sketch's: of long rings, and of all else
	events     events
	_          [16]byte
}

const shardBytes = int64(unsafe.Sizeof(shard{}))

// need is memory that a client lacks.
type need struct {
	slots int
	rings int64 // bytes
}

// grow makes sure that the need can be met, and reports whether it can.
func (sh *shard) grow(n need) bool {
	for range n.slots {
		sh.migrateSome()
	}
	slots, now := sh.n+n.slots, sh.layout()
	index, to := grown(len(sh.index), slots), layoutOf(max(slots, now.slots()))
	bytes := to.bytes() - now.bytes() + n.rings
	if index > len(sh.index) {
		bytes += int64(index) * 4
	}
	if slots > maxSlots || !sh.reserve(bytes) {
		return false
	}
	if to != now {
		sh.lay(to)
	}
	if index > len(sh.index) {
		for sh.old != nil {
			sh.migrateSome()
		}
		sh.reindex(index)
	}
	return true
}

// migrateSome moves some entries of the old index, if there is one, and gives its memory back in the end.
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
	// So that a key that comes and goes does not make a chunk come and go.
	sh.release(chunkSlots / 2)
}

// release gives back what is not needed for the slots in use and so many free ones, and
// reports whether that is anything.
func (sh *shard) release(keep int) bool {
	now, to := sh.layout(), layoutOf(sh.n+keep)
	if to.slots() >= now.slots() {
		return false
	}
	sh.lay(to)
	sh.reserve(to.bytes() - now.bytes())
	small := shrunk(len(sh.index), sh.n)
	if sh.old == nil && small < len(sh.index) && sh.reserve(int64(small)*4) {
		sh.reindex(small)
	}
	return true
}

// over reports whether nothing is left of a slot, so that forgetting it changes
// nothing. A slot that hides what the sketch says of its client stays for as long
// as the sketch says it: the slot knows better.
func (sh *shard) over(at *slot, now int64) bool {
	b := sh.store.rules.of(at)
	if !at.count.IsEmpty(b.Limit, now) {
		return false
	}
	if !at.is(hides) {
		return true
	}
	p := sh.sketch.recall(b, at.hash, at.ident, now)
	return p.IsZero()
}

// sweepSlots is the number of slots that a sweep looks at: neighbouring ones, which
// together cost less than one each time. A new slot owes one slot, so that what has
// expired goes as fast as others come; so does a decision after a sweep that has freed
// something, since more may have expired, and else a decision owes an eighth of a slot.
const (
	sweepSlots = 8
	sweepDue   = 8 * sweepSlots // in eighths
)

// flood is the number of about the last 64 decisions that must be for strangers.
const flood = 48

// tick counts a decision. Now and then it sweeps, and finds out whether there is a flood.
func (sh *shard) tick(now int64) {
	if sh.asked++; sh.asked%8 == 0 {
		sh.recent += sh.strangers - sh.recent/8
		sh.strangers = 0
	}
	if sh.due++; sh.due >= sweepDue {
		sh.due -= sweepDue
		if sh.sweep(now) {
			sh.due = max(sh.due, sweepDue-sweepSlots)
		}
	}
}

// sweep frees what has expired, and reports whether it has freed a slot. It goes round and round, so that clients which
// do not come back do not stay.
func (sh *shard) sweep(now int64) (freed bool) {
	sh.migrateSome()
	for range min(sweepSlots, sh.n) {
		if sh.hand >= sh.n {
			sh.hand = 0
		}
		if sh.clean(sh.hand, now) {
			freed = true // look next at what has moved here
		} else {
			sh.hand++
		}
	}
	if sh.sketch != nil && now >= sh.sketch.until {
		sh.sketch = nil
	}
	return freed
}

// clean removes slot i if nothing is left of it, and else makes its ring
// shorter if that is much too long.
func (sh *shard) clean(i int, now int64) (removed bool) {
	at := sh.slot(i)
	if sh.over(at, now) {
		sh.forget(i)
		return true
	}
	if ring := ringBytes(&at.count); ring > 0 {
		at.count.Trim(sh.store.rules.of(at).Limit, now)
		if left := ringBytes(&at.count); left != ring {
			sh.resizeRing(ring, left)
		}
	}
	return false
}

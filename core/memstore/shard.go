package memstore

import (
	"sync"
	"unsafe"
)

// shard is a part of the keys under a lock of its own. All limits of a client
// are in the same shard, so that a decision takes one lock. Every method needs
// sh.mu to be held.
type shard struct {
	mu sync.Mutex
	table
	now    int64   // the latest time that the clock has shown here, or 0
	sketch *sketch // of the clients that were evicted; nil if none were
	store  *Store

	own, large int64 // bytes, without the sketch's: of long rings, and of all else
	next       int   // where eviction looks next
	hand       int   // where sweep looks next
	asked      uint8 // decisions, to sweep now and then
	strangers  uint8 // of them since the last sweep, of clients for which there was no room
	recent     uint8 // strangers of about 64 decisions before that

	// Together a line of the cache, rarely written: it keeps a neighbour's lock away.
	events events
	_      [24]byte
}

const shardBytes = int64(unsafe.Sizeof(shard{}))

// need is memory that a client lacks.
type need struct {
	slots int
	rings int64 // bytes
}

// grow makes sure that the need can be met, and reports whether it can.
func (sh *shard) grow(n need) bool {
	chunks := max(0, (n.slots-sh.free()+chunkSlots-1)/chunkSlots)
	index := grown(len(sh.index), sh.n+n.slots)
	bytes := int64(chunks)*chunkBytes + int64(index-len(sh.index))*4
	if sh.n+n.slots > maxSlots || !sh.reserve(bytes+n.rings) {
		return false
	}
	for range chunks {
		sh.chunks = append(sh.chunks, new(chunk).slots[:])
	}
	if index > len(sh.index) {
		sh.reindex(index)
	}
	return true
}

// forget removes slot i and gives its memory back.
func (sh *shard) forget(i int) {
	ring := ringBytes(&sh.slot(i).count)
	sh.remove(i)
	sh.resizeRing(ring, 0)
	// A chunk goes only when half of the chunk before it is free too, so a key that
	// comes and goes does not make a chunk come and go.
	sh.release(chunkSlots * 3 / 2)
}

// release gives chunks back while at least keep slots are free. keep is at least chunkSlots.
func (sh *shard) release(keep int) {
	for sh.free() >= keep {
		last := len(sh.chunks) - 1
		freed := chunkBytes
		sh.chunks[last] = nil
		sh.chunks = sh.chunks[:last]
		if last < cap(sh.chunks)/4 {
			sh.chunks = append(make([][]slot, 0, 2*last), sh.chunks...)
		}
		if small := shrunk(len(sh.index), sh.n); small < len(sh.index) {
			freed += int64(len(sh.index)-small) * 4
			sh.reindex(small)
		}
		sh.reserve(-freed)
	}
}

// over reports whether nothing is left of a slot, so that forgetting it changes
// nothing. A slot that hides what the sketch says of its client stays for as long
// as the sketch says it: the slot knows better.
func (sh *shard) over(at *slot, now int64) bool {
	b := sh.store.rules.of(at)
	if !at.count.Spent(b.Limit, now) {
		return false
	}
	if !at.is(hides) {
		return true
	}
	p := sh.sketch.recall(b, at.hash, at.ident, now)
	return p.None()
}

// sweepEvery is the number of decisions between two sweeps, and the number of
// slots of a sweep. Neighbouring slots together cost less than one each time.
const sweepEvery = 8

// flood is the number of about the last 64 decisions that must be for strangers.
const flood = 48

// sweep frees what has expired. It goes round and round, so that clients which do
// not come back do not stay. And it finds out whether there is a flood.
func (sh *shard) sweep(now int64) {
	sh.recent += sh.strangers - sh.recent/8
	sh.strangers = 0
	for range min(sweepEvery, sh.n) {
		if sh.hand >= sh.n {
			sh.hand = 0
		}
		if !sh.clean(sh.hand, now) { // else look next at what has moved here
			sh.hand++
		}
	}
	if sh.sketch != nil && now >= sh.sketch.until {
		sh.sketch = nil
	}
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

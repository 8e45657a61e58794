package memstore

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sashlimit/sash/core/internal/window"
)

// shard is a part of the keys under a lock of its own: a hash table whose
// entries are slot numbers, and the slots, kept dense by moving the last one
// into a gap. All limits of a client are in the same shard, so that a decision
// takes one lock.
type shard struct {
	mu     sync.Mutex
	index  []uint32 // open addressing; tag<<24 | slot+1, or 0; a power of two long
	chunks []*chunk
	now    int64 // of the newest decision, without WithClock
	n      int   // slots in use
	hand   int   // where sweep looks next
	asked  uint8 // decisions, to sweep now and then

	victims victims // who goes next when the store is full; see evict.go
	bounds  *bounds // of the store

	rest *shardRest // apart, to keep shards small
	_    [56]byte   // keeps a neighbour's lock out of the cache line
}

// slot is one client under one limit, in 64 bytes: a line of the cache.
type slot struct {
	hash  hash
	ident uint32 // whose count it is
	bound uint32 // what it was last held against, a number in bounds
	log   window.Log
}

// counter is what the slot of a counter holds, where another has the numbers of
// its log.
func (s *slot) counter() *window.Counter { return (*window.Counter)(unsafe.Pointer(&s.log)) }

// wanted is what was refused last of the costs above 1, or else 1: whoever is
// refused so much is at the limit, as a request of cost 1 may not show.
func (s *slot) wanted(n int64) int64 {
	w := &s.log.Spare
	return min(max(1, (int64(w[0])|int64(w[1])<<8|int64(w[2])<<16)*unit(n)), n)
}

// want remembers a cost, from 1 to n, that was refused.
func (s *slot) want(cost, n int64) {
	u := unit(n)
	units := (cost + u - 1) / u
	s.log.Spare = [3]byte{byte(units), byte(units >> 8), byte(units >> 16)}
}

// unit is what costs up to n are counted in, rounded up, to fit into 24 bits.
func unit(n int64) int64 {
	if n < 1<<24 {
		return 1
	}
	return n >> 23
}

// bound is what a slot is held against. Limits of one ident differ in N alone.
type bound struct {
	window.Limit
	isLog bool
}

// bounds numbers the bounds that a store has met. It grows while rules are
// bound, and is read without a lock.
type bounds struct{ list atomic.Pointer[[]bound] }

func (b *bounds) of(s *slot) *bound { return &(*b.list.Load())[s.bound] }

// number returns the number of one, which it adds if it is new. Not for
// concurrent use.
func (b *bounds) number(one bound) uint32 {
	var list []bound
	if old := b.list.Load(); old != nil {
		list = *old
	}
	if i := slices.Index(list, one); i >= 0 {
		return uint32(i)
	}
	list = append(slices.Clone(list), one)
	b.list.Store(&list)
	return uint32(len(list) - 1)
}

const (
	chunkSlots = 63
	maxIndex   = 1<<24 - 1 // of an index entry, what is not tag
)

// chunk is 4096 bytes with the word that the allocator puts before it. What
// is left over brings the slots to the beginning of a line.
type chunk struct {
	_     [56]byte
	slots [chunkSlots]slot
}

const (
	// A chunk, twice its entry in a table that append may have doubled, and its
	// share of the lists that a full store makes.
	chunkBytes = int64(unsafe.Sizeof(chunk{})) + 8 + 2*8 + chunkVictims*int64(unsafe.Sizeof(victim{}))

	// A shard, what a look finds in it, and the list that even a single chunk may
	// have.
	shardBytes = int64(unsafe.Sizeof(shard{})) + int64(unsafe.Sizeof(shardRest{})) + leastVictims*int64(unsafe.Sizeof(victim{}))

	maxSlots = maxIndex - 1
)

// slot is slot i. To the compiler the pointer to a chunk may be nil, and it would
// look there: at the first line of the chunk, which nobody needs.
func (sh *shard) slot(i int) *slot {
	u := uintptr(i)
	c := sh.chunks[u/chunkSlots]
	return (*slot)(unsafe.Add(unsafe.Pointer(c), unsafe.Offsetof(c.slots)+u%chunkSlots*unsafe.Sizeof(slot{})))
}

// free is how many slots are allocated and not in use.
func (sh *shard) free() int { return len(sh.chunks)*chunkSlots - sh.n }

// over says whether nothing is left of a slot, so that it can be forgotten
// without anybody noticing.
func (sh *shard) over(s *slot, now int64) bool {
	b := sh.bounds.of(s)
	if b.isLog {
		return s.log.Last <= now-b.W
	}
	return s.counter().Over(now, b.W)
}

func home(h hash, ident uint32) uint64 { return h.low ^ uint64(ident)*0x9e3779b97f4a7c15>>32 }

func tag(h hash) uint32 { return uint32(h.high) << 24 }

// place is where in the index a slot stands, or where it would be put; the
// slot is nil then.
func (sh *shard) place(h hash, ident uint32) (at int, s *slot) {
	mask := uint64(len(sh.index) - 1)
	for p := home(h, ident) & mask; ; p = (p + 1) & mask {
		e := sh.index[p]
		if e == 0 {
			return int(p), nil
		}
		if e&^maxIndex == tag(h) {
			if s := sh.slot(int(e&maxIndex) - 1); s.hash == h && s.ident == ident {
				return int(p), s
			}
		}
	}
}

// named is the number of the slot that stands at p in the index.
func (sh *shard) named(p int) int { return int(sh.index[p]&maxIndex) - 1 }

// find returns a slot, or nil.
func (sh *shard) find(h hash, ident uint32) *slot {
	if len(sh.index) == 0 {
		return nil
	}
	_, s := sh.place(h, ident)
	return s
}

// price is what so many more slots and so many bytes of rings take: chunks, an
// index of that length, and bytes altogether.
func (sh *shard) price(slots int, bytes int64) (chunks, index int, total int64) {
	chunks = max(0, (slots-sh.free()+chunkSlots-1)/chunkSlots)
	index = grown(len(sh.index), sh.n+slots)
	return chunks, index, bytes + int64(chunks)*chunkBytes + int64(index-len(sh.index))*4
}

// grown is how long an index must be for so many slots.
func grown(index, slots int) int {
	for slots*8 > index*7 {
		index = max(2*index, 16)
	}
	return index
}

// shrunk is how long an index may be when a chunk goes and so many slots stay.
func shrunk(index, slots int) int {
	if small := index / 4; small >= 16 && slots*4 <= small*2 {
		return small
	}
	return index
}

// grow makes sure that so many slots can be inserted and so many bytes of
// rings be allocated, or says what is lacking.
func (sh *shard) grow(s *Store, slots int, bytes int64) need {
	chunks, index, total := sh.price(slots, bytes)
	if sh.n+slots > maxSlots || !s.reserve(total) {
		return need{slots, bytes, total}
	}
	for range chunks {
		sh.chunks = append(sh.chunks, new(chunk))
	}
	if index > len(sh.index) {
		sh.reindex(index)
	}
	return need{}
}

func (sh *shard) reindex(size int) {
	sh.index = make([]uint32, size)
	for i := range sh.n {
		s := sh.slot(i)
		sh.point(s.hash, s.ident, i)
	}
}

// point makes the index name slot i.
func (sh *shard) point(h hash, ident uint32, i int) {
	p, _ := sh.place(h, ident)
	sh.index[p] = tag(h) | uint32(i+1)
}

// insert adds an empty slot, for which grow has made room.
func (sh *shard) insert(h hash, l *limit) *slot {
	i := sh.n
	sh.n++
	s := sh.slot(i)
	s.hash, s.ident, s.bound = h, l.ident, l.bound
	sh.point(h, l.ident, i)
	sh.note(i)
	return s
}

// remove forgets slot i and moves the last slot into its place.
func (sh *shard) remove(s *Store, i int) {
	gone := sh.slot(i)
	p, _ := sh.place(gone.hash, gone.ident)
	sh.unindex(p)
	freed := ringSize(gone.log.Words())
	sh.n--
	last := sh.slot(sh.n)
	if last != gone {
		p, _ := sh.place(last.hash, last.ident)
		*gone = *last
		sh.index[p] = tag(gone.hash) | uint32(i+1)
		sh.note(i)
	}
	*last = slot{}
	s.reserve(-freed)
	// A chunk goes when half of the one before it is free, too: a key that
	// comes and goes does not make a chunk come and go.
	sh.release(s, chunkSlots*3/2)
	s.stuck.Store(0)
}

// release gives chunks back while more than so many slots are free.
func (sh *shard) release(s *Store, keep int) {
	for len(sh.chunks) > 0 && sh.free() >= max(keep, chunkSlots) {
		last := len(sh.chunks) - 1
		freed := chunkBytes
		sh.chunks[last] = nil
		sh.chunks = sh.chunks[:last]
		if last < cap(sh.chunks)/4 {
			sh.chunks = append(make([]*chunk, 0, 2*last), sh.chunks...)
		}
		sh.victims.fit(last)
		if small := shrunk(len(sh.index), sh.n); small < len(sh.index) {
			freed += int64(len(sh.index)-small) * 4
			sh.reindex(small)
		}
		s.reserve(-freed)
	}
}

// left is what the tables take when release has had its turn after each slot
// that went, until n are left, and more have come.
func (sh *shard) left(n, more int) int64 {
	chunks, index := len(sh.chunks), len(sh.index)
	for chunks > 0 && chunks*chunkSlots-n >= chunkSlots {
		chunks--
		index = shrunk(index, min(sh.n, chunks*chunkSlots))
	}
	chunks = max(chunks, (n+more+chunkSlots-1)/chunkSlots)
	return int64(chunks)*chunkBytes + int64(grown(index, n+more))*4
}

// unindex empties position p and moves up what would no longer be found.
func (sh *shard) unindex(p int) {
	mask := len(sh.index) - 1
	for q := (p + 1) & mask; sh.index[q] != 0; q = (q + 1) & mask {
		s := sh.slot(sh.named(q))
		h := int(home(s.hash, s.ident)) & mask
		if (q-h)&mask >= (q-p)&mask {
			sh.index[p] = sh.index[q]
			p = q
		}
	}
	sh.index[p] = 0
}

// sweepEvery is how many decisions pass before sweep looks at as many slots: at
// those that stand together, which costs less than one each time.
const sweepEvery = 8

// sweep frees what has expired. It goes round and round, so that what nobody
// asks for any more does not stay.
func (sh *shard) sweep(s *Store, now int64) {
	for range min(sweepEvery, sh.n) {
		if sh.hand >= sh.n {
			sh.hand = 0
		}
		if sh.n > 0 && !sh.clean(s, sh.hand, now) { // else look next at what has moved here
			sh.hand++
		}
	}
}

// clean removes slot i if nothing is left of it, and else makes its ring
// shorter if that is much too long.
func (sh *shard) clean(s *Store, i int, now int64) (removed bool) {
	at := sh.slot(i)
	if sh.over(at, now) {
		sh.remove(s, i)
		return true
	}
	if b := sh.bounds.of(at); b.isLog && at.log.Words() > 8 {
		l := &at.log
		l.Expire(now - b.W)
		if l.First <= now-b.W/2 { // else it may be about to fill again
			before := ringBytes(l)
			l.Shrink()
			s.reserve(ringBytes(l) - before)
		}
	}
	return false
}

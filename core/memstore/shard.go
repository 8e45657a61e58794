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
	n      int      // slots in use
	chunks []chunk
	now    int64 // of the newest decision, without WithClock
	asked  uint8 // decisions, to sweep now and then
	hand   int   // where sweep looks next

	victims victims // who goes next when the store is full; see evict.go
	bounds  *bounds // of the store

	_ [64]byte // keeps a neighbour's lock out of the cache line
}

// slot is one client under one limit. Without pointers: the garbage collector
// does not look into slots.
type slot struct {
	hash  hash
	state [3]int64 // of a counter: index, previous, current; of a log: its shape, oldest and newest stamp
	ident uint32   // whose count it is
	bound uint32   // what it was last held against, a number in bounds
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
	chunkSlots = 64
	maxIndex   = 1<<24 - 1 // of an index entry, what is not tag
)

// chunk holds slots, and the rings of those that are logs.
type chunk struct {
	slots *[chunkSlots]slot
	rings *[chunkSlots][]int64
}

const (
	// A chunk, twice its entry in a table that append may have doubled, and its
	// share of the lists that a full store makes.
	chunkBytes = int64(unsafe.Sizeof([chunkSlots]slot{})+unsafe.Sizeof([chunkSlots][]int64{})) +
		2*int64(unsafe.Sizeof(chunk{})) + chunkSlots/16*2*int64(unsafe.Sizeof(victim{}))

	shardBytes = int64(unsafe.Sizeof(shard{}))

	maxSlots = maxIndex - 1
)

func (sh *shard) slot(i int) *slot { return &sh.chunks[i/chunkSlots].slots[i%chunkSlots] }

func (sh *shard) ring(i int) *[]int64 { return &sh.chunks[i/chunkSlots].rings[i%chunkSlots] }

// free is how many slots are allocated and not in use.
func (sh *shard) free() int { return len(sh.chunks)*chunkSlots - sh.n }

func (s *slot) counter() window.Counter {
	return window.Counter{Index: s.state[0], Prev: s.state[1], Cur: s.state[2]}
}

// counter is that of slot i, or of nobody if i is -1.
func (sh *shard) counter(i int) window.Counter {
	if i < 0 {
		return window.Counter{}
	}
	return sh.slot(i).counter()
}

func (s *slot) setCounter(c window.Counter) { s.state = [3]int64{c.Index, c.Prev, c.Cur} }

func (s *slot) newest() int64 { return s.state[2] }

// log is that of slot i, or of nobody if i is -1.
func (sh *shard) log(i int) window.Log {
	if i < 0 {
		return window.Log{}
	}
	s := sh.slot(i)
	shape := uint64(s.state[0])
	return window.Log{
		Ring: *sh.ring(i), Pairs: shape>>63 == 1, Head: uint32(shape << 1 >> 33), Len: uint32(shape),
		First: s.state[1], Last: s.state[2],
	}
}

func (sh *shard) setLog(i int, l *window.Log) {
	shape := uint64(l.Head)<<32 | uint64(l.Len) // neither has as many as 31 bits
	if l.Pairs {
		shape |= 1 << 63
	}
	sh.slot(i).state = [3]int64{int64(shape), l.First, l.Last}
	*sh.ring(i) = l.Ring
}

// over says whether nothing is left of a slot, so that it can be forgotten
// without anybody noticing.
func (sh *shard) over(s *slot, now int64) bool {
	b := sh.bounds.of(s)
	if b.isLog {
		return s.newest() <= now-b.W
	}
	return s.counter().Over(now, b.W)
}

func home(h hash, ident uint32) uint64 { return h[0] ^ uint64(ident)*0x9e3779b97f4a7c15>>32 }

func tag(h hash) uint32 { return uint32(h[1]) << 24 }

// place is where in the index a slot stands, or where it would be put.
func (sh *shard) place(h hash, ident uint32) (at int, found bool) {
	mask := uint64(len(sh.index) - 1)
	for p := home(h, ident) & mask; ; p = (p + 1) & mask {
		e := sh.index[p]
		if e == 0 {
			return int(p), false
		}
		if e&^maxIndex == tag(h) {
			if s := sh.slot(int(e&maxIndex) - 1); s.hash == h && s.ident == ident {
				return int(p), true
			}
		}
	}
}

// find returns the number of a slot, or -1.
func (sh *shard) find(h hash, ident uint32) int {
	if len(sh.index) == 0 {
		return -1
	}
	if p, ok := sh.place(h, ident); ok {
		return int(sh.index[p]&maxIndex) - 1
	}
	return -1
}

// price is what so many more slots and so many bytes of rings take: chunks, an
// index of that length, and bytes altogether.
func (sh *shard) price(slots int, bytes int64) (chunks, index int, total int64) {
	chunks = max(0, (slots-sh.free()+chunkSlots-1)/chunkSlots)
	index = len(sh.index)
	for (sh.n+slots)*4 > index*3 {
		index = max(2*index, 16)
	}
	return chunks, index, bytes + int64(chunks)*chunkBytes + int64(index-len(sh.index))*4
}

// grow makes sure that so many slots can be inserted and so many bytes of
// rings be allocated, or says what is lacking.
func (sh *shard) grow(s *Store, slots int, bytes int64) need {
	if slots == 0 && bytes == 0 {
		return need{}
	}
	chunks, index, total := sh.price(slots, bytes)
	if sh.n+slots > maxSlots || !s.reserve(total) {
		return need{slots, bytes, total}
	}
	for range chunks {
		sh.chunks = append(sh.chunks, chunk{new([chunkSlots]slot), new([chunkSlots][]int64)})
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
func (sh *shard) insert(h hash, l *limit) int {
	i := sh.n
	sh.n++
	*sh.slot(i) = slot{hash: h, ident: l.ident, bound: l.bound}
	sh.point(h, l.ident, i)
	sh.note(i)
	return i
}

// remove forgets slot i and moves the last slot into its place.
func (sh *shard) remove(s *Store, i int) {
	gone := sh.slot(i)
	p, _ := sh.place(gone.hash, gone.ident)
	sh.unindex(p)
	freed := ringSize(len(*sh.ring(i)))
	sh.n--
	if last := sh.n; i != last {
		moved := sh.slot(last)
		p, _ := sh.place(moved.hash, moved.ident)
		*gone = *moved
		sh.index[p] = tag(gone.hash) | uint32(i+1)
		*sh.ring(i) = *sh.ring(last)
	}
	*sh.ring(sh.n) = nil
	*sh.slot(sh.n) = slot{}
	if i < sh.n {
		sh.note(i)
	}
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
		sh.chunks[last] = chunk{}
		sh.chunks = sh.chunks[:last]
		if small := len(sh.index) / 4; small >= 16 && sh.n*4 <= small*2 {
			freed += int64(len(sh.index)-small) * 4
			sh.reindex(small)
		}
		s.reserve(-freed)
	}
}

// unindex empties position p and moves up what would no longer be found.
func (sh *shard) unindex(p int) {
	mask := len(sh.index) - 1
	for q := (p + 1) & mask; sh.index[q] != 0; q = (q + 1) & mask {
		s := sh.slot(int(sh.index[q]&maxIndex) - 1)
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
	if sh.bounds.of(at).isLog && len(*sh.ring(i)) > 8 {
		l, w := sh.log(i), sh.bounds.of(at).W
		before := ringBytes(&l)
		l.Expire(now - w)
		if l.First <= now-w/2 { // else it may be about to fill again
			l.Shrink()
			s.reserve(ringBytes(&l) - before)
		}
		sh.setLog(i, &l)
	}
	return false
}

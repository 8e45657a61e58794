package memstore

import "unsafe"

// table is the slots of a shard and a hash table of their numbers. Slots are
// kept dense by moving the last one into a gap.
type table struct {
	index  []uint32 // open addressing; tag<<24 | slot+1, or 0; a power of two long
	chunks [][]slot
	n      int // slots in use
}

const (
	chunkSlots = 63
	maxIndex   = 1<<24 - 1 // of an index entry, what is not tag
	maxSlots   = maxIndex - 1
)

// chunk is 4096 bytes with the word that the allocator puts before it. What
// is left over brings the slots to the beginning of a line.
type chunk struct {
	_     [56]byte
	slots [chunkSlots]slot
}

// chunkBytes is a chunk and twice its entry in a list that append may have
// doubled.
const chunkBytes = int64(unsafe.Sizeof(chunk{})) + 8 + 2*int64(unsafe.Sizeof([]slot{}))

// slot returns slot i.
func (t *table) slot(i int) *slot {
	u := uint(i)
	return &t.chunks[u/chunkSlots][u%chunkSlots]
}

// free returns how many slots are allocated and not in use.
func (t *table) free() int { return len(t.chunks)*chunkSlots - t.n }

func home(h hash, ident uint32) uint64 { return h.low ^ uint64(ident)*0x9e3779b97f4a7c15>>32 }

func tag(h hash) uint32 { return uint32(h.high) << 24 }

// place is where in the index a slot stands, or where it would be put; the
// slot is nil then.
func (t *table) place(h hash, ident uint32) (at int, s *slot) {
	mask := uint64(len(t.index) - 1)
	for p := home(h, ident) & mask; ; p = (p + 1) & mask {
		e := t.index[p]
		if e == 0 {
			return int(p), nil
		}
		if e&^maxIndex == tag(h) {
			if s := t.slot(int(e&maxIndex) - 1); s.hash == h && s.ident == ident {
				return int(p), s
			}
		}
	}
}

// named is the number of the slot that stands at p in the index.
func (t *table) named(p int) int { return int(t.index[p]&maxIndex) - 1 }

// find returns a slot, or nil.
func (t *table) find(h hash, ident uint32) *slot {
	if len(t.index) == 0 {
		return nil
	}
	_, s := t.place(h, ident)
	return s
}

// grown returns the length of an index for so many slots.
func grown(index, slots int) int {
	for slots*8 > index*7 {
		index = max(2*index, 16)
	}
	return index
}

// shrunk returns the most that an index may have when a chunk goes and so many slots stay.
func shrunk(index, slots int) int {
	if small := index / 4; small >= 16 && slots*4 <= small*2 {
		return small
	}
	return index
}

func (t *table) reindex(size int) {
	t.index = make([]uint32, size)
	for i := range t.n {
		s := t.slot(i)
		t.point(s.hash, s.ident, i)
	}
}

// point makes the index name slot i.
func (t *table) point(h hash, ident uint32, i int) {
	p, _ := t.place(h, ident)
	t.index[p] = tag(h) | uint32(i+1)
}

// insert adds an empty slot, for which there is room.
func (t *table) insert(h hash, ident, bound uint32) *slot {
	i := t.n
	t.n++
	s := t.slot(i)
	s.hash, s.ident, s.bound = h, ident, bound
	t.point(h, ident, i)
	return s
}

// remove forgets slot i and moves the last slot into its place.
func (t *table) remove(i int) {
	gone := t.slot(i)
	p, _ := t.place(gone.hash, gone.ident)
	t.unindex(p)
	t.n--
	last := t.slot(t.n)
	if last != gone {
		p, _ := t.place(last.hash, last.ident)
		*gone = *last
		t.index[p] = tag(gone.hash) | uint32(i+1)
	}
	*last = slot{}
}

// unindex empties position p and moves up what would no longer be found. It reads
// the homes of some slots before it looks at any: to fetch them one after the
// other would take most of the time of an eviction.
func (t *table) unindex(p int) {
	mask := len(t.index) - 1
	var homes [8]int
	for q := p + 1; t.index[q&mask] != 0; {
		n := 0
		for ; n < len(homes) && t.index[(q+n)&mask] != 0; n++ {
			s := t.slot(t.named((q + n) & mask))
			homes[n] = int(home(s.hash, s.ident))
		}
		for _, h := range homes[:n] {
			if (q-h)&mask >= (q-p)&mask {
				t.index[p&mask] = t.index[q&mask]
				p = q
			}
			q++
		}
	}
	t.index[p&mask] = 0
}

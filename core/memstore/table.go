package memstore

import "unsafe"

// table is the slots of a shard and a hash table of their numbers. The last slot moves
// into a gap, so that slots stay dense.
type table struct {
	index  []uint32  // open addressing; tag<<24 | slot+1, or 0; a power of two long
	chunks [][]slot  // of chunkSlots each; the last may be shorter: see layoutOf
	n      int       // slots in use
	old    *oldIndex // mostly nil
}

// oldIndex is an index that was too short or too long. Its entries are moved into the new one a few at a time.
type oldIndex struct {
	index []uint32
	moved int // the number of positions that have been moved; an entry leaves a tombstone
}

const (
	chunkSlots = 73        // 4096 bytes with the word that the allocator puts before them
	maxIndex   = 1<<24 - 1 // the bits of an index entry that are not the tag
	maxSlots   = maxIndex - 1
	tombstone  = maxIndex // an entry of an old index that has been moved or removed
)

// layout is a number of chunks, and the length of the last one: a shard of few clients has no whole chunk.
type layout struct{ chunks, last int }

// layoutOf returns the least layout for a number of slots. A last chunk has 4 slots, 9, 25, 41, 57 or 73. From 25 on
// they and the allocator's word fill what the allocator gives. At most 16 must go before there is memory for a ring.
func layoutOf(slots int) (l layout) {
	const least, step = 4, 16
	if slots == 0 {
		return l
	}
	l.chunks = (slots + chunkSlots - 1) / chunkSlots
	l.last = slots - (l.chunks-1)*chunkSlots
	if l.last <= least {
		l.last = least
	} else {
		l.last = chunkSlots - (chunkSlots-l.last)/step*step
	}
	return l
}

// slots returns the number of slots.
func (l layout) slots() int { return max(0, l.chunks-1)*chunkSlots + l.last }

// bytes returns the bytes of the chunks, as the allocator rounds them up, and twice the
// entries in a list that append may have doubled.
func (l layout) bytes() int64 {
	const ofChunk = 8 + 2*int64(unsafe.Sizeof([]slot{}))
	return int64(l.slots())*int64(unsafe.Sizeof(slot{})) + int64(l.chunks)*ofChunk
}

// slot returns slot i.
func (t *table) slot(i int) *slot {
	u := uint(i)
	return &t.chunks[u/chunkSlots][u%chunkSlots]
}

// layout returns the layout of the chunks.
func (t *table) layout() (l layout) {
	if l.chunks = len(t.chunks); l.chunks > 0 {
		l.last = len(t.chunks[l.chunks-1])
	}
	return l
}

// setLayout changes the layout of the chunks. The slots in use must fit. Slots may move.
func (t *table) setLayout(to layout) {
	for i := max(0, min(len(t.chunks), to.chunks)-1); i < max(len(t.chunks), to.chunks); i++ {
		length := chunkSlots
		if i == to.chunks-1 {
			length = to.last
		}
		switch {
		case i >= len(t.chunks):
			t.chunks = append(t.chunks, make([]slot, length))
		case i >= to.chunks:
			t.chunks[i] = nil
		case len(t.chunks[i]) != length:
			old := t.chunks[i]
			t.chunks[i] = make([]slot, length)
			copy(t.chunks[i], old)
		}
	}
	if t.chunks = t.chunks[:to.chunks]; to.chunks < cap(t.chunks)/4 {
		t.chunks = append(make([][]slot, 0, 2*to.chunks), t.chunks...)
	}
}

// probeStart returns the position, before the mask, at which the search for a slot begins.
func probeStart(h hash, ident uint32) uint64 { return uint64(h) ^ uint64(ident)*0x9e3779b97f4a7c15>>32 }

func tag(h hash) uint32 { return uint32(h) &^ maxIndex }

// seek returns the position of a slot in an index, or the free position for it and nil.
func (t *table) seek(index []uint32, h hash, ident uint32) (at uint64, s *slot) {
	for p := probeStart(h, ident); ; p++ {
		p &= uint64(len(index) - 1)
		e := index[p]
		if e == 0 {
			return p, nil
		}
		if e&^maxIndex == tag(h) && e != tombstone {
			if s := t.slot(int(e&maxIndex) - 1); s.hash == h && s.ident == ident {
				return p, s
			}
		}
	}
}

// find returns a slot, or nil.
func (t *table) find(h hash, ident uint32) *slot {
	if len(t.index) == 0 {
		return nil
	}
	// A call of seek would take 20 instructions more.
	mask := uint64(len(t.index) - 1)
	for p := probeStart(h, ident); t.index[p&mask] != 0; p++ {
		if e := t.index[p&mask]; e&^maxIndex == tag(h) {
			if s := t.slot(int(e&maxIndex) - 1); s.hash == h && s.ident == ident {
				return s
			}
		}
	}
	if t.old == nil {
		return nil
	}
	_, s := t.seek(t.old.index, h, ident)
	return s
}

// entry returns the entry of a slot, in the index or in the old one.
func (t *table) entry(s *slot) *uint32 {
	if at, found := t.seek(t.index, s.hash, s.ident); found != nil {
		return &t.index[at]
	}
	at, _ := t.seek(t.old.index, s.hash, s.ident)
	return &t.old.index[at]
}

// number returns the number of a slot.
func (t *table) number(s *slot) int { return int(*t.entry(s)&maxIndex) - 1 }

// grownIndex returns the length of an index for a number of slots.
func grownIndex(index, slots int) int {
	for slots*8 > index*7 {
		index = max(2*index, 16)
	}
	return index
}

// shrunkIndex returns the length of an index for fewer slots: a quarter if at most half of that is used, or the same.
func shrunkIndex(index, slots int) int {
	if small := index / 4; small >= 16 && slots*4 <= small*2 {
		return small
	}
	return index
}

// reindex makes an index of another length, into which migrate moves the entries: all at
// once would delay a decision. t.old must be nil.
func (t *table) reindex(size int) {
	if t.index != nil {
		t.old = &oldIndex{index: t.index}
	}
	t.index = make([]uint32, size)
}

// migrateStep is the number of positions that migrate moves. Each new slot calls migrate, so the old index is empty
// before the new one is full.
const migrateStep = 16

// migrate moves some entries of the old index, and returns its length once it is empty, or else 0.
func (t *table) migrate() int {
	from := t.old.index
	for range min(migrateStep, len(from)-t.old.moved) {
		if e := &from[t.old.moved]; *e != 0 && *e != tombstone {
			s := t.slot(int(*e&maxIndex) - 1)
			at, _ := t.seek(t.index, s.hash, s.ident)
			t.index[at], *e = *e, tombstone
		}
		t.old.moved++
	}
	if t.old.moved < len(from) {
		return 0
	}
	t.old = nil
	return len(from)
}

// insert adds an empty slot. There must be room.
func (t *table) insert(h hash, ident, info uint32) *slot {
	i := t.n
	t.n++
	s := t.slot(i)
	s.hash, s.ident, s.info = h, ident, info
	at, _ := t.seek(t.index, h, ident)
	t.index[at] = tag(h) | uint32(i+1)
	return s
}

// remove removes slot i and moves the last slot into its place.
func (t *table) remove(i int) {
	removed := t.slot(i)
	if at, found := t.seek(t.index, removed.hash, removed.ident); found != nil {
		t.removeEntry(int(at))
	} else {
		*t.entry(removed) = tombstone
	}
	t.n--
	last := t.slot(t.n)
	if last != removed {
		*t.entry(last) = tag(last.hash) | uint32(i+1)
		*removed = *last
	}
	*last = slot{}
}

// removeEntry empties position p and moves later entries up that would no longer be
// found. It reads the probe starts of several slots before it uses any: to fetch one
// after the other would take most of the time of an eviction.
func (t *table) removeEntry(p int) {
	mask := len(t.index) - 1
	var starts [8]int
	for q := p + 1; t.index[q&mask] != 0; {
		n := 0
		for ; n < len(starts) && t.index[(q+n)&mask] != 0; n++ {
			s := t.slot(int(t.index[(q+n)&mask]&maxIndex) - 1)
			starts[n] = int(probeStart(s.hash, s.ident))
		}
		for _, h := range starts[:n] {
			if (q-h)&mask >= (q-p)&mask {
				t.index[p&mask] = t.index[q&mask]
				p = q
			}
			q++
		}
	}
	t.index[p&mask] = 0
}

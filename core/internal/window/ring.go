package window

import (
	"slices"
	"unsafe"
)

// Log is a ring of admitted requests, oldest first. The zero value is empty.
//
// While every cost is 1, an entry is its stamp. The first other cost turns the
// ring into pairs of a stamp and the running total of units up to and with
// that entry, so that the k-th oldest unit is found by bisection. Stamps never
// decrease.
//
// The stamps of the oldest and of the newest entry stand beside the ring as
// well: most decisions need no others, and need not fetch the ring. Two
// entries of cost 1 need no ring at all.
//
// Entries are dropped when another is pushed, and not by a request that is
// refused: then every later stamp is at least a window after what was dropped,
// even if the clock steps back in between.
type Log struct {
	first, last int64  // the oldest and the newest stamp; of no meaning when entries is 0
	head        uint32 // the index of the oldest entry
	entries     uint32

	// The ring, see setRing. Of pairs, the last word is the running total before the
	// oldest.
	start *int64
	words uint32
	pairs bool

	units Rounded // of pairs, about all in the ring
}

// The unsafe code of the package is in the two methods below. A Log has a pointer
// and a number of words instead of a slice: 12 bytes instead of 24. A Count takes
// 40 bytes so, a slot of the store in memory 56, and a client some 68.
// TestCountSize here and TestSizes in memstore hold the sizes, BenchmarkMemory in
// memstore shows the bytes of a client.
//
// The pointer and the number come from one slice and change together, so that they
// always make that slice again. go test -race turns checkptr on, which stops a test
// in which they make a slice that is longer than the memory of the pointer.

// ring returns the words that the entries stand in.
func (l *Log) ring() []int64 { return unsafe.Slice(l.start, l.words) }

// setRing makes l stand in ring.
func (l *Log) setRing(ring []int64) { l.start, l.words = unsafe.SliceData(ring), uint32(len(ring)) }

// Words returns the length of the ring.
func (l *Log) Words() int { return int(l.words) }

// room returns how many entries the ring can hold.
func (l *Log) room() uint32 {
	if l.pairs {
		return (l.words - 1) / 2
	}
	return l.words
}

// words returns the length of a ring with room for the given entries and an eighth more, or three.
func words(entries uint32, pairs bool) int {
	n := int(entries + max(3, entries/8))
	if pairs {
		return 2*n + 1
	}
	return n
}

// base returns where a ring of pairs has the running total before the oldest entry.
func (l *Log) base() *int64 { return &l.ring()[l.words-1] }

// at returns where the i-th oldest entry stands.
func (l *Log) at(i uint32) uint32 {
	if i += l.head; i >= l.room() {
		i -= l.room()
	}
	return i
}

func (l *Log) stamp(i uint32) int64 {
	switch i {
	case 0:
		return l.first
	case l.entries - 1:
		return l.last
	}
	return l.inner(i)
}

// inner returns the stamp of an entry that is neither the oldest nor the newest.
func (l *Log) inner(i uint32) int64 {
	i = l.at(i)
	if l.pairs {
		i *= 2
	}
	return l.ring()[i]
}

// total returns how many units the i+1 oldest entries hold together.
func (l *Log) total(i uint32) int64 {
	if l.pairs {
		return l.totalOfPairs(i)
	}
	return int64(i) + 1
}

func (l *Log) totalOfPairs(i uint32) int64 { return l.ring()[2*l.at(i)+1] - *l.base() }

// before returns the running total before entry i.
func (l *Log) before(i uint32) int64 {
	if i == 0 {
		return 0
	}
	return l.total(i - 1)
}

// Clone returns a copy of l with a ring of its own.
func (l *Log) Clone() Log {
	c := *l
	c.setRing(slices.Clone(l.ring()))
	return c
}

// Fits reports whether there is room for Push(_, cost).
func (l *Log) Fits(cost int64) bool {
	if cost != 1 && !l.pairs {
		return false
	}
	return l.entries < l.room() || l.entries < 2 && !l.pairs
}

// Grown returns how many words the ring must have for a Push(_, cost) that does not
// fit.
func (l *Log) Grown(cost int64) int {
	return max(words(l.entries, l.pairs || cost != 1), l.Words())
}

// smallRing is the number of words that are not worth an allocation.
const smallRing = 8

// Shrink gives memory back when more than three quarters of a ring are empty.
func (l *Log) Shrink() {
	if l.entries < l.room()/4 {
		l.move(words(l.entries, l.pairs), l.pairs)
	}
}

// move copies the entries into a new ring of at least the given words.
func (l *Log) move(words int, pairs bool) {
	ring := slices.Grow([]int64(nil), words)
	ring = ring[:cap(ring)] // the allocator rounds up: use what it gave
	switch {
	case pairs:
		for i := range l.entries {
			ring[2*i], ring[2*i+1] = l.stamp(i), l.total(i)
		}
	case l.words == 0: // one entry or two; of a CoarseLog one slot, in first
		ring[l.entries-1], ring[0] = l.last, l.first
	default:
		old := l.ring()
		n := copy(ring[:l.entries], old[l.head:])
		copy(ring[n:l.entries], old)
	}
	l.setRing(ring)
	l.head, l.pairs = 0, pairs // the base is 0, as all of a new ring
}

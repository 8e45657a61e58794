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
// The oldest and the newest stamp stand beside the ring as well: most decisions
// need no others, and do not read the ring. Two entries of cost 1 need no ring.
//
// A request drops expired entries. Every later stamp is at least a window after
// them, since the caller's time never runs back.
type Log struct {
	first, last int64  // the oldest and the newest stamp; if entries is 0, last is 0 or has expired
	head        uint32 // the index of the oldest entry
	entries     uint32

	// The ring; see setRing. The last word of a ring of pairs is the running total
	// before the oldest entry.
	data  *int64
	words uint32
	pairs bool

	units Rounded // the units of a ring of pairs, rounded up
}

// The unsafe code of the package is in the two methods below. A Log has a pointer
// and a length instead of a slice: 12 bytes instead of 24. So a Count takes 40
// bytes, a slot of the store in memory 56, and a client some 68.
//
// The pointer and the length come from one slice and change together, so they
// always describe memory of that slice. go test -race checks it, with checkptr.

// ring returns the words of the entries.
func (l *Log) ring() []int64 { return unsafe.Slice(l.data, l.words) }

// setRing makes ring the words of l's entries.
func (l *Log) setRing(ring []int64) { l.data, l.words = unsafe.SliceData(ring), uint32(len(ring)) }

// Words returns the length of the ring.
func (l *Log) Words() int { return int(l.words) }

// capacity returns the number of entries that the ring can hold.
func (l *Log) capacity() uint32 {
	if l.pairs {
		return (l.words - 1) / 2
	}
	return l.words
}

// words returns the length of a ring for the given number of entries and an eighth more, at least three more.
func words(entries uint32, pairs bool) int {
	n := int(entries + max(3, entries/8))
	if pairs {
		return 2*n + 1
	}
	return n
}

// base returns the running total before the oldest entry of a ring of pairs.
func (l *Log) base() *int64 { return &l.ring()[l.words-1] }

// at returns the index of the i-th oldest entry.
func (l *Log) at(i uint32) uint32 {
	if i += l.head; i >= l.capacity() {
		i -= l.capacity()
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
	i = l.at(i)
	if l.pairs {
		i *= 2
	}
	return l.ring()[i]
}

// total returns the units of the i+1 oldest entries together.
func (l *Log) total(i uint32) int64 {
	if l.pairs {
		return l.ring()[2*l.at(i)+1] - *l.base()
	}
	return int64(i) + 1
}

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
	return l.entries < l.capacity() || l.entries < 2 && !l.pairs
}

// Grown returns the number of words that the ring must have for a Push(_, cost)
// that does not fit.
func (l *Log) Grown(cost int64) int {
	return max(words(l.entries, l.pairs || cost != 1), l.Words())
}

// smallRing is the number of words up to which a ring is not shortened.
const smallRing = 8

// move copies the entries into a new ring of at least the given words.
func (l *Log) move(words int, pairs bool) {
	ring := slices.Grow([]int64(nil), words)
	ring = ring[:cap(ring)] // the allocator rounds up
	switch {
	case pairs:
		for i := range l.entries {
			ring[2*i], ring[2*i+1] = l.stamp(i), l.total(i)
		}
	case l.words == 0: // one entry or two, or one slot of a CoarseLog, in first
		ring[l.entries-1], ring[0] = l.last, l.first
	default:
		old := l.ring()
		n := copy(ring[:l.entries], old[l.head:])
		copy(ring[n:l.entries], old)
	}
	l.setRing(ring)
	l.head, l.pairs = 0, pairs // the base of a new ring is 0
}

package window

import (
	"slices"
	"unsafe"
)

// LogFacts is what a decision needs to know of a log of admitted requests. An
// entry counts until it is a window old.
type LogFacts struct {
	Units  int64 // counted
	Oldest int64 // stamp of the oldest unit; of no meaning when Units is 0
	Leaver int64 // stamp of the unit that must leave before the request fits; see Excess
}

// Excess is how many of the oldest units must leave before cost more fit: the
// Leaver is the Excess-th oldest unit. It is positive when the request is
// refused for now, and of no meaning for a cost above the limit.
func (l Limit) Excess(units, cost int64) int64 { return units + cost - l.N }

// Rewound returns the facts of the log after [Log.Rewind].
func (f LogFacts) Rewound(now int64) LogFacts {
	return LogFacts{Units: f.Units, Oldest: min(f.Oldest, now), Leaver: min(f.Leaver, now)}
}

// Decide is the log's verdict on a request of the given cost at now, which
// would be counted at stamp: the newest of now and what is counted already.
// Expiry, and so the waiting times, are reckoned from now.
func (f LogFacts) Decide(l Limit, now, stamp, cost int64) Verdict {
	v := Verdict{Admitted: l.fits(f.Units, cost)}
	counted := f.Units
	if v.Admitted {
		counted += cost
	}
	v.Remaining = max(0, l.N-counted)
	switch {
	case f.Units > 0:
		v.ResetAfter = f.Oldest + l.W - now
	case counted > 0:
		v.ResetAfter = stamp + l.W - now
	}
	switch {
	case v.Admitted:
	case cost > l.N:
		v.RetryAfter = Never
	default:
		v.RetryAfter = f.Leaver + l.W - now
	}
	return v
}

// Log is a ring of admitted requests, oldest first. The zero value is empty.
//
// While every cost is 1, an entry is its stamp. The first other cost turns the
// ring into pairs of a stamp and the running total of units up to and with
// that entry, so that the k-th oldest unit is found by bisection. Stamps never
// decrease.
//
// The stamps of the oldest and of the newest entry stand beside the ring as
// well: most decisions need no others, and need not fetch the ring. A single
// entry of cost 1 needs no ring at all.
//
// Entries are dropped when another is pushed, and not by a request that is
// refused: then every later stamp is at least a window after what was dropped,
// even if the clock steps back in between.
type Log struct {
	First, Last int64  // the oldest and the newest stamp; of no meaning when Len is 0
	Head        uint32 // entry index of the oldest
	Len         uint32 // entries

	// The ring, without the capacity of a slice, which is its length: a store
	// has a Log for every client. Of pairs, the last word is the running total
	// before the oldest.
	ring  *int64
	words uint32
	Pairs bool
	Spare [3]byte // for a store's own use; the room is there
}

// Ring is what the entries stand in.
func (l *Log) Ring() []int64 { return unsafe.Slice(l.ring, l.words) }

// Words is the length of the Ring.
func (l *Log) Words() int { return int(l.words) }

// room is how many entries the ring can hold.
func (l *Log) room() uint32 { return room(l.words, l.Pairs) }

func room(words uint32, pairs bool) uint32 {
	if pairs {
		return (max(1, words) - 1) / 2
	}
	return words
}

// words is what a ring takes that has room for so many entries and some more.
func words(entries uint32, pairs bool) int {
	n := int(entries + max(3, entries/8))
	if pairs {
		return 2*n + 1
	}
	return n
}

// base is the running total before the oldest entry of a ring of pairs.
func (l *Log) base() *int64 { return &l.Ring()[l.words-1] }

// at is where the i-th oldest entry stands.
func (l *Log) at(i uint32) uint32 {
	if i += l.Head; i >= l.room() {
		i -= l.room()
	}
	return i
}

func (l *Log) stamp(i uint32) int64 {
	switch i {
	case 0:
		return l.First
	case l.Len - 1:
		return l.Last
	}
	return l.inner(i)
}

// inner is the stamp of an entry that is neither the oldest nor the newest.
func (l *Log) inner(i uint32) int64 {
	i = l.at(i)
	if l.Pairs {
		i *= 2
	}
	return l.Ring()[i]
}

// total is how many units the i+1 oldest entries hold together.
func (l *Log) total(i uint32) int64 {
	if l.Pairs {
		return l.totalOfPairs(i)
	}
	return int64(i) + 1
}

func (l *Log) totalOfPairs(i uint32) int64 { return l.Ring()[2*l.at(i)+1] - *l.base() }

// Newest is the newest stamp, or 0 when nothing is counted.
func (l *Log) Newest() int64 {
	if l.Len == 0 {
		return 0
	}
	return l.Last
}

// expired is how many entries are at cutoff or before.
func (l *Log) expired(cutoff int64) uint32 {
	switch {
	case l.Last <= cutoff:
		return l.Len
	case l.First > cutoff:
		return 0
	}
	return l.someExpired(cutoff)
}

// someExpired is expired where some are and some are not. Mostly few are: the
// search begins at the old end, in steps that double.
func (l *Log) someExpired(cutoff int64) uint32 {
	switch {
	case l.Len == 0:
		return 0
	case l.stamp(1) > cutoff:
		return 1
	}
	low, high := uint32(2), uint32(3)
	for ; high < l.Len && l.stamp(high) <= cutoff; high = 2*high + 1 {
		low = high + 1
	}
	return search(low, min(high, l.Len), func(i uint32) bool { return l.stamp(i) > cutoff })
}

// Expire drops what is counted at cutoff or before: now - W for a window W.
// Only a clock that never steps back may drop without a push.
func (l *Log) Expire(cutoff int64) {
	expired := l.expired(cutoff)
	switch expired {
	case 0:
		return
	case l.Len:
		l.Head, l.Len, l.Pairs = 0, 0, false
		return
	}
	if l.Pairs {
		*l.base() += l.total(expired - 1)
	}
	l.First = l.stamp(expired)
	l.Head = l.at(expired)
	l.Len -= expired
}

// Rewind stamps with now what was counted ahead of now, so that it leaves one window
// from now at the latest. It is for a log whose newest entry is ahead by more than the
// Allowance.
func (l *Log) Rewind(now int64) {
	tail := search(0, l.Len, func(i uint32) bool { return l.stamp(i) > now })
	for i := tail; i < l.Len && l.words > 0; i++ {
		at := l.at(i)
		if l.Pairs {
			at *= 2
		}
		l.Ring()[at] = now
	}
	l.First, l.Last = min(l.First, now), min(l.Last, now)
}

// Clone returns a copy of l with a ring of its own.
func (l *Log) Clone() Log {
	c := *l
	if l.words > 0 {
		c.ring = unsafe.SliceData(slices.Clone(l.Ring()))
	}
	return c
}

// Facts tells what a decision on cost at now needs to know.
func (l *Log) Facts(limit Limit, now, cost int64) LogFacts {
	expired := l.expired(now - limit.W)
	if expired == l.Len {
		return LogFacts{}
	}
	var gone int64
	if expired > 0 {
		gone = l.total(expired - 1)
	}
	f := LogFacts{Units: l.total(l.Len-1) - gone, Oldest: l.stamp(expired)}
	if k := limit.Excess(f.Units, cost); k > 0 && cost <= limit.N {
		// Every entry holds at least a unit, so the k-th unit is at most k entries in.
		last := expired + uint32(min(k, int64(l.Len-expired))) - 1
		if l.Pairs {
			last = search(expired, last, func(i uint32) bool { return l.total(i)-gone >= k })
		}
		f.Leaver = l.stamp(last)
	}
	return f
}

// search is the first i in [lo, hi) for which f holds, or hi.
func search(lo, hi uint32, f func(uint32) bool) uint32 {
	for lo < hi {
		if mid := lo + (hi-lo)/2; f(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// Fits says whether there is room for Push(_, cost).
func (l *Log) Fits(cost int64) bool {
	if cost != 1 && !l.Pairs {
		return false
	}
	return l.Len < l.room() || l.Len == 0 && !l.Pairs
}

// Grown is how many words the ring must have for a Push(_, cost) that does not
// fit.
func (l *Log) Grown(cost int64) int {
	if cost == 1 || l.Pairs {
		return words(l.Len, l.Pairs)
	}
	return max(words(l.Len, true), l.Words())
}

// Push counts cost units at stamp, which is not before Newest. If they do not
// fit, the ring grows as Grown says. Expire first.
func (l *Log) Push(stamp, cost int64) {
	if !l.Fits(cost) {
		l.move(l.Grown(cost), l.Pairs || cost != 1)
	}
	l.Last = stamp
	if l.Len++; l.Len == 1 {
		l.First = stamp
	}
	i := l.at(l.Len - 1)
	switch {
	case l.Pairs:
		total := *l.base() + cost
		if l.Len > 1 {
			total += l.total(l.Len - 2)
		}
		l.Ring()[2*i], l.Ring()[2*i+1] = stamp, total
	case l.words > 0:
		l.Ring()[i] = stamp
	}
}

// Shrink gives memory back when more than three quarters of a ring are empty.
func (l *Log) Shrink() {
	const small = 8 // words that are not worth an allocation
	if l.words > small && l.Len < l.room()/4 {
		l.move(words(l.Len, l.Pairs), l.Pairs)
	}
}

// move copies the entries into a new ring of at least the given words.
func (l *Log) move(words int, pairs bool) {
	ring := slices.Grow([]int64(nil), words)
	ring = ring[:cap(ring)] // the allocator rounds up: use what it gave
	switch {
	case pairs:
		for i := range l.Len {
			ring[2*i], ring[2*i+1] = l.stamp(i), l.total(i)
		}
	case l.words == 0:
		ring[0] = l.First
	default:
		old := l.Ring()
		n := copy(ring[:l.Len], old[l.Head:])
		copy(ring[n:l.Len], old)
	}
	l.ring, l.words, l.Head, l.Pairs = unsafe.SliceData(ring), uint32(len(ring)), 0, pairs
	if pairs {
		*l.base() = 0
	}
}

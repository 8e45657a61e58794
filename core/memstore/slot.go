package memstore

import (
	"unsafe"

	"github.com/sashlimit/sash/core/internal/window"
)

// slot is one client under one limit, in 64 bytes: a line of the cache.
type slot struct {
	hash  hash
	ident uint32 // whose count it is
	bound uint32 // what it was last held against, a number in rules
	log   window.Log
}

// counter is what the slot of a counter holds, where another has the numbers of
// its log.
func (s *slot) counter() *window.Counter { return (*window.Counter)(unsafe.Pointer(&s.log)) }

// What a log has to spare holds a byte of flags, and the units of a ring of
// pairs, which eviction weighs without fetching the ring.
const (
	hides    = 1 << iota // the sketch says something of the client, which no more counts
	forgiven             // a Reset made the slot
)

func (s *slot) is(flag byte) bool { return s.log.Spare[0]&flag != 0 }

func (s *slot) mark(flags byte) { s.log.Spare[0] |= flags }

// weigh notes how many units a log of pairs holds.
func (s *slot) weigh() {
	if l := &s.log; l.Pairs && l.Len > 0 {
		units := round(l.Since(l.First - 1))
		l.Spare[1], l.Spare[2] = byte(units), byte(units>>8)
	}
}

// weight is about how many units a log holds.
func (s *slot) weight() int64 {
	if s.log.Pairs {
		return (rounded(s.log.Spare[1]) | rounded(s.log.Spare[2])<<8).units()
	}
	return int64(s.log.Len)
}

// begun is the time before which nothing more can be counted: of the newest entry
// of a log, or when a counter's window began.
func (s *slot) begun(b *bound) int64 {
	if b.isLog {
		return s.log.Last
	}
	return s.counter().Start(b.W)
}

// rewound returns the slot with what is counted too far ahead of now counted at now:
// the slot itself if keep is true, or else a copy. Only a clock of WithClock steps
// back so far.
func (s *slot) rewound(b *bound, now int64, keep bool) *slot {
	if !keep {
		copied := *s
		if s = &copied; b.isLog {
			s.log = s.log.Clone()
		}
	}
	if b.isLog {
		s.log.Rewind(now)
	} else {
		*s.counter() = s.counter().Rewind(now, b.W)
	}
	return s
}

// decide is the verdict on the client of the slot.
func (s *slot) decide(b *bound, now, stamp, cost int64) window.Verdict {
	if b.isLog {
		return s.log.Facts(b.Limit, now, cost).Decide(b.Limit, now, stamp, cost)
	}
	return s.counter().At(stamp, b.W).Decide(b.Limit, now, stamp, cost)
}

// count charges a slot that has room.
func (s *slot) count(b *bound, stamp, cost int64) {
	if !b.isLog {
		counter := s.counter()
		*counter = counter.At(stamp, b.W)
		counter.Cur += cost
		return
	}
	s.log.Push(stamp, cost)
	s.weigh()
}

// spent reports whether nothing that the slot counts is left.
func (s *slot) spent(b *bound, now int64) bool {
	if b.isLog {
		return s.log.Last <= now-b.W
	}
	return s.counter().Over(now, b.W)
}

// used returns about which part of its limit the client has used.
func (s *slot) used(b *bound, now int64) float32 {
	units := s.weight
	if !b.isLog {
		units = func() int64 {
			stamp := max(now, s.counter().Start(b.W))
			return s.counter().At(stamp, b.W).Counted(stamp, b.W)
		}
	}
	return float32(units()) / float32(b.N)
}

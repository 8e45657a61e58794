package memstore

import "github.com/sashlimit/sash/core/internal/window"

// A store's bytes are divided once, when it is made: up to a quarter is for sketches;
// half of the rest is shared out among the shards, and the other half is common.
// A shard always gets what its share holds, so no other shard can take the place
// of its clients. Beyond that it borrows from the common half while there is
// something. Long rings and rules take from the common half alone.
const (
	sketchPart = 4
	commonPart = 2

	// The most bytes of a short ring. In a small store it is a part of the
	// share, so that a client can have short rings for minShortRings limits.
	shortRing     = 4 << 10
	minShortRings = 16
)

// borrow takes n bytes of the common half, if it has them. A negative n gives
// them back.
func (s *Store) borrow(n int64) bool {
	for {
		common := s.common.Load()
		if n > 0 && n > common {
			return false
		}
		if s.common.CompareAndSwap(common, common-n) {
			return true
		}
	}
}

// reserve takes n bytes for slots, the index or short rings, if sh can have
// them. A negative n gives them back. sh.mu must be held.
func (sh *shard) reserve(n int64) bool { return sh.account(n, 0) }

// resizeRing takes the bytes by which a ring grows, if sh can have them, or gives
// the bytes back by which it shrinks. sh.mu must be held.
func (sh *shard) resizeRing(before, after int64) bool {
	own, large := after-before, int64(0)
	if before > sh.store.largeRing {
		own, large = own+before, large-before
	}
	if after > sh.store.largeRing {
		own, large = own-after, large+after
	}
	return sh.account(own, large)
}

// account takes bytes for sh: own from its share as far as possible, and large for
// long rings. sh.mu must be held.
func (sh *shard) account(own, large int64) bool {
	s := sh.store
	borrow := max(0, sh.own+own-s.share) - max(0, sh.own-s.share) + large
	if borrow != 0 && !s.borrow(borrow) {
		return false
	}
	sh.own, sh.large = sh.own+own, sh.large+large
	return true
}

func ringBytes(c *window.Count) int64 { return int64(c.Words()) * 8 }

// ringBound returns an upper bound of the bytes of a new ring of the given words: the
// allocator rounds up, by less than a quarter.
func ringBound(words int) int64 { return int64(words+words/4+2) * 8 }

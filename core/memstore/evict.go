package memstore

import "github.com/sashlimit/sash/core/internal/window"

// Evicted units go on counting. When a shard has no memory for another slot it
// looks at sampleSize slots, evicts the slot that has used the smallest part of
// its limit, and records the slot's units in its sketch. When the evicted client
// is back, it begins with the estimate of the sketch. So any slot may be evicted,
// and no client is admitted above its limit (doc.go has the exception).
//
// In a flood, where most requests have keys that are new to the shard, the first
// request of a client evicts no other: it is counted in the sketch alone, and the
// second gets a slot. So a flood of keys that come once leaves the slots to other
// clients, and costs less.
//
// If one eviction does not make room, the following ones look at followingSize slots:
// up to half a chunk of slots must go before there are bytes for a ring, and no
// decision may take long.
const (
	sampleSize    = 16
	followingSize = 4
)

// makeRoom evicts clients other than the request's until there is memory. It reports
// false if all evictions do not free enough.
func (sh *shard) makeRoom(c *ledger, r *request, n need) bool {
	for sample := sampleSize; !sh.grow(n); sample = followingSize {
		if sh.release(0) {
			continue
		}
		i := sh.leastUsed(c, r.hash, r.now, sample)
		if i < 0 {
			return false
		}
		sh.evict(i, r.now)
	}
	return true
}

// isFlooded reports whether a new key belongs to a flood, for which no slot that
// counts something is evicted. It counts the new key.
func (sh *shard) isFlooded(c *ledger, r *request) bool {
	sh.newKeys++
	if sh.recentNewKeys < floodThreshold {
		return false
	}
	i := sh.leastUsed(c, r.hash, r.now, sampleSize)
	return i >= 0 && !sh.slot(i).count.IsEmpty(sh.store.rules.of(sh.slot(i)).Limit, r.now)
}

// makeRoomForRules takes n bytes of the common half. For them it evicts clients of
// shards that have borrowed from it.
func (s *Store) makeRoomForRules(n int64) bool {
	got := s.borrow(n)
	for i := 0; i < len(s.shards) && !got; i++ {
		sh := &s.shards[i]
		now := s.lock(sh)
		for got = s.borrow(n); !got && sh.n > 0 && max(sh.own-s.share, sh.large) > 0; got = s.borrow(n) {
			slot := sh.leastUsed(&ledger{}, 0, now, sampleSize)
			if sh.own <= s.share { // no slot has borrowed
				slot = sh.longest()
			}
			sh.evict(slot, now)
			sh.release(0)
		}
		sh.mu.Unlock()
	}
	return got
}

// longest returns the slot with the longest ring.
func (sh *shard) longest() (best int) {
	for i := range sh.n {
		if sh.slot(i).count.Words() > sh.slot(best).count.Words() {
			best = i
		}
	}
	return best
}

// leastUsed returns the slot to evict, or -1 if all slots are of the request's
// client. For rules there is no client, and c has no limits. It looks at sample slots in a
// row, and the next call begins with the second of them, so that nearly all are in
// the processor's cache.
func (sh *shard) leastUsed(c *ledger, h hash, now int64, sample int) int {
	if sh.evictNext++; sh.evictNext >= sh.n {
		sh.evictNext = 0
	}
	best, least := -1, float32(0)
	for i := range sh.n {
		if i >= sample && best >= 0 {
			break
		}
		if i += sh.evictNext; i >= sh.n {
			i -= sh.n
		}
		s := sh.slot(i)
		if s.hash == h && c.hasIdent(s.ident) {
			continue
		}
		if used := sh.used(s, now); best < 0 || used < least {
			best, least = i, used
		}
	}
	return best
}

// used returns about the part of its limit that a slot has used, or less than 0 if
// nothing counts. A slot that a Reset made counts as used up: its eviction would undo
// the Reset.
func (sh *shard) used(s *slot, now int64) float32 {
	b := sh.store.rules.of(s)
	switch {
	case s.is(wasReset):
		return 1
	case s.count.IsEmpty(b.Limit, now):
		return -1
	}
	return float32(s.count.Units(b.Limit, now)) / float32(b.N)
}

// evict removes slot i, and records its units in the sketch.
func (sh *shard) evict(i int, now int64) {
	at := sh.slot(i)
	b := sh.store.rules.of(at)
	if p := at.count.Summarize(&b.Bound, now); !p.IsZero() {
		sh.events.evictions++
		sh.record(b, at.hash, at.ident, p, now)
	}
	sh.forget(i)
}

// record writes the units of a client, which are not zero, into the sketch.
func (sh *shard) record(b *limitInfo, h hash, ident uint32, p window.EvictedCount, now int64) {
	if sh.sketch == nil {
		sh.sketch = newSketch(sh.store.sketchBytes)
	}
	sh.sketch.record(b, h, ident, p, now)
}

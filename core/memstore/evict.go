package memstore

import "github.com/sashlimit/sash/core/internal/window"

// What is evicted goes on counting. When a shard has no memory for another slot
// it looks at sampleSize slots, evicts the slot that has used the smallest part of
// its limit, and writes into its sketch what the slot has counted. When
// the evicted client is back, it begins with what the sketch says. So any slot
// may be evicted, and no client is ever admitted above its limit.
//
// Where most requests are of clients that the shard does not know, the first of a
// client evicts no other: it is counted in the sketch alone, and the client gets a
// slot with its second. So a flood of names that come once leaves the slots to
// others, and costs less.
//
// Where one eviction does not make room, those that follow look at followingSize slots:
// up to half a chunk of slots must go before there are bytes for a ring, and no decision
// is to take long.
const (
	sampleSize    = 16
	followingSize = 4
)

// makeRoom makes room for a request by c. It evicts other clients until there is
// room, and reports false if it has evicted all of them in vain.
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

// floodedBy reports whether a client that the shard does not know is one of a
// flood, for which no slot that still counts something is to be evicted.
func (sh *shard) floodedBy(c *ledger, r *request) bool {
	sh.strangers++
	if sh.recent < flood {
		return false
	}
	i := sh.leastUsed(c, r.hash, r.now, sampleSize)
	return i >= 0 && !sh.slot(i).count.IsEmpty(sh.store.rules.of(sh.slot(i)).Limit, r.now)
}

// makeRoomForRules takes n bytes of the common half, for which it evicts clients
// of shards that have borrowed from it.
func (s *Store) makeRoomForRules(n int64) bool {
	got := s.borrow(n)
	for i := 0; i < len(s.shards) && !got; i++ {
		sh := &s.shards[i]
		now := s.lock(sh)
		for got = s.borrow(n); !got && sh.n > 0 && max(sh.own-s.share, sh.large) > 0; got = s.borrow(n) {
			slot := sh.leastUsed(nil, 0, now, sampleSize)
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

// leastUsed returns the slot to evict, or -1 if all are of the client that
// decides by c. Room for rules is made for no client: c is nil then. It looks at
// so many slots in a row, and next time begins with the second of them: so
// that nearly all are in the cache already.
func (sh *shard) leastUsed(c *ledger, h hash, now int64, sample int) int {
	if sh.next++; sh.next >= sh.n {
		sh.next = 0
	}
	best, least := -1, float32(0)
	for i := range sh.n {
		if i >= sample && best >= 0 {
			break
		}
		if i += sh.next; i >= sh.n {
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

// used returns about which part of its limit a slot has used: less than 0 if
// nothing of it is left. What a Reset has made counts as used up, or the Reset
// would soon be undone.
func (sh *shard) used(s *slot, now int64) float32 {
	b := sh.store.rules.of(s)
	switch {
	case s.is(forgiven):
		return 1
	case s.count.IsEmpty(b.Limit, now):
		return -1
	}
	return float32(s.count.Units(b.Limit, now)) / float32(b.N)
}

// evict forgets slot i, after it has written into the sketch what it has counted.
func (sh *shard) evict(i int, now int64) {
	at := sh.slot(i)
	b := sh.store.rules.of(at)
	if past := at.count.Summarize(&b.Bound, now); !past.IsZero() {
		sh.events.evictions++
		sh.remember(b, at.hash, at.ident, past, now)
	}
	sh.forget(i)
}

// remember writes into the sketch what a client has counted, which is not nothing.
func (sh *shard) remember(b *bound, h hash, ident uint32, p window.EvictedCount, now int64) {
	if sh.sketch == nil {
		sh.sketch = newSketch(sh.store.sketchBytes)
	}
	sh.sketch.remember(b, h, ident, p, now)
}

package memstore

import (
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
)

// locked returns the time of a shard, whose lock nobody else wants.
func (s *Store) locked(sh *shard) int64 {
	defer sh.mu.Unlock()
	return s.lock(sh)
}

// free returns the number of slots that are allocated and not in use.
func (t *table) free() int { return t.layout().slots() - t.n }

// EvictAll evicts every client: what is counted stands in the sketches alone.
func (s *Store) EvictAll() {
	for i := range s.shards {
		sh := &s.shards[i]
		for now := s.lock(sh); sh.n > 0; {
			sh.evict(sh.n-1, now)
		}
		sh.mu.Unlock()
	}
}

// Audit counts the bytes of every table anew and fails unless the tables hold
// together. Nobody may use the store meanwhile.
func (s *Store) Audit(t testing.TB) {
	t.Helper()
	check := func(ok bool, format string, args ...any) {
		t.Helper()
		if !ok && !t.Failed() { // one error is enough
			t.Errorf(format, args...)
		}
	}
	total := int64(len(s.shards))*shardBytes + s.rules.bytes
	common := s.max - int64(len(s.shards))*(shardBytes+s.sketchBytes+s.share) - s.rules.bytes
	for number := range s.shards {
		sh := &s.shards[number]
		own, large := sh.layout().bytes()+int64(len(sh.index))*4, int64(0)
		names := sh.index
		if sh.old != nil {
			own += int64(len(sh.old.index)) * 4
			names = slices.Concat(names, sh.old.index)
		}
		if sh.sketch != nil {
			total += s.sketchBytes
		}
		check(sh.free() >= 0 && sh.n*8 <= len(sh.index)*7 && len(sh.index)&(len(sh.index)-1) == 0,
			"shard %d: %d slots in %d chunks and an index of %d", number, sh.n, len(sh.chunks), len(sh.index))
		check(cap(sh.chunks) < 4*(len(sh.chunks)+1),
			"shard %d: a table with room for %d chunks of %d", number, cap(sh.chunks), len(sh.chunks))
		names = slices.DeleteFunc(slices.Clone(names), func(e uint32) bool { return e == 0 || e == tombstone })
		check(len(names) == sh.n, "shard %d: the index names %d slots of %d", number, len(names), sh.n)
		for i := range sh.n + sh.free() {
			at := sh.slot(i)
			if i >= sh.n {
				check(*at == (slot{}), "shard %d: the unused slot %d holds %+v", number, i, at)
				continue
			}
			check(sh.find(at.hash, at.ident) == at && sh.number(at) == i, "shard %d: slot %d is not found", number, i)
			check(len(s.shards) == 1 || s.shard(at.hash) == sh, "shard %d: slot %d belongs elsewhere", number, i)
			words := at.count.Words()
			if words == 0 {
				continue
			}
			check(s.rules.of(at).Algorithm != core.SlidingCounter, "shard %d: the counter %d has a ring", number, i)
			room := cap(append([]int64(nil), make([]int64, words)...))
			check(room == words, "shard %d: slot %d has a ring of %d with room for %d", number, i, words, room)
			if ring := int64(words) * 8; ring > s.largeRing {
				large += ring
			} else {
				own += ring
			}
		}
		check(sh.own == own && sh.large == large, "shard %d: %d bytes and %d for long rings, the tables hold %d and %d",
			number, sh.own, sh.large, own, large)
		total += own + large
		common -= max(0, own-s.share) + large
	}
	used, got := s.Stats().Bytes, s.common.Load()
	check(used == total, "Bytes says %d, the tables hold %d", used, total)
	check(got == common && got >= 0, "%d bytes are common, want %d", got, common)
	check(total <= s.max, "%d bytes: the bound is %d", total, s.max)
}

package lease

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	shards    = 64
	shardSize = 256 // entries; some 5 MB in all when full
	sample    = 8   // entries examined to find one to evict
)

// Table holds the leases of this process by client and rule. It is safe for concurrent use.
type Table struct {
	terms  Terms
	now    func() time.Time // the clock of this process
	seed   [2]maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu       sync.Mutex
	byHolder map[holder]*lease
}

// holder is a client, by its hash, under a rule.
type holder struct {
	client [2]uint64
	rule   *ledger
}

// NewTable returns an empty table. Leases are at most as large and as long as terms, and less where a rule's limits
// require it.
func NewTable(terms Terms) *Table {
	t := &Table{terms: terms, now: time.Now, seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range t.shards {
		t.shards[i].byHolder = map[holder]*lease{}
	}
	return t
}

// holder returns the holder for the client under the rule, and its shard.
func (l *ledger) holder(client string) (holder, *shard) {
	t := l.table
	hash := [2]uint64{maphash.String(t.seed[0], client), maphash.String(t.seed[1], client)}
	return holder{hash, l}, &t.shards[hash[0]%shards]
}

// add inserts an entry for a new holder. A full shard evicts an entry without unspent units or renewal. add returns nil
// if a sample of the entries has none. s.mu must be held.
func (s *shard) add(h holder, now time.Time) *lease {
	if len(s.byHolder) >= shardSize {
		scanned := 0
		for other, e := range s.byHolder {
			if !e.canUse(now, 1) && e.renewal == nil {
				delete(s.byHolder, other)
				break
			}
			if scanned++; scanned == sample {
				return nil
			}
		}
	}
	e := &lease{since: now}
	s.byHolder[h] = e
	return e
}

// Unspent returns the number of leases that can be spent at now, and the sum of their units.
func (t *Table) Unspent(now time.Time) (leases, units int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.byHolder {
			if e.canUse(now, 1) {
				leases, units = leases+1, units+e.left
			}
		}
		s.mu.Unlock()
	}
	return leases, units
}

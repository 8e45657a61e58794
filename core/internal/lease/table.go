package lease

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	shards    = 64
	shardSize = 256 // entries; some 5 MB in all when full
	sample    = 8   // entries that are looked at for one to give up
)

// Table holds the units that this process has taken ahead, by client and rule. It is safe for concurrent use.
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

// NewTable returns a table with no leases, which are to be on these terms where a rule does not narrow them.
func NewTable(terms Terms) *Table {
	t := &Table{terms: terms, now: time.Now, seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range t.shards {
		t.shards[i].byHolder = map[holder]*lease{}
	}
	return t
}

// holder returns the client under the rule, and the client's shard.
func (l *ledger) holder(client string) (holder, *shard) {
	t := l.table
	hash := [2]uint64{maphash.String(t.seed[0], client), maphash.String(t.seed[1], client)}
	return holder{hash, l}, &t.shards[hash[0]%shards]
}

// add makes an entry for a client that has none. In a full shard it gives up the entry of a client that has nothing
// to spend, or returns nil if it does not find one soon: see TestAddFindsOne. s.mu must be held.
func (s *shard) add(h holder, now time.Time) *lease {
	if len(s.byHolder) >= shardSize {
		looked := 0
		for other, e := range s.byHolder {
			if !e.has(now, 1) && e.renewal == nil {
				delete(s.byHolder, other)
				break
			}
			if looked++; looked == sample {
				return nil
			}
		}
	}
	e := &lease{since: now}
	s.byHolder[h] = e
	return e
}

// Unspent returns how many leases have units to spend at now, and how many units.
func (t *Table) Unspent(now time.Time) (leases, units int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.byHolder {
			if e.has(now, 1) {
				leases, units = leases+1, units+e.left
			}
		}
		s.mu.Unlock()
	}
	return leases, units
}

package denycache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	shards    = 64
	shardSize = 512 // refusals
	changes   = 256 // times of invalidation in a shard, each shared by some clients
)

// shard holds the refusals of some clients.
type shard struct {
	mu       sync.Mutex
	byKey    map[uint64]*refusal // by request.key; of two requests with the same key the newer stays
	nonEmpty atomic.Bool         // byKey has entries; if not, as mostly, an admission takes no lock

	// changes holds the time of the last Invalidate, by a client's hash. An answer to an earlier request is not cached.
	changes [changes]time.Duration

	hits uint64 // requests answered from the shard
}

// request identifies a refused request: the client by its hash, the rule and the cost.
type request struct {
	low, high uint64
	rule      uint64
	cost      int64
}

// key returns a hash that is as uniform as the client's.
func (q *request) key() uint64 {
	return q.low ^ (q.rule<<32+uint64(q.cost))*0x9e3779b97f4a7c15
}

// refusal is a cached refusal.
type refusal struct {
	request
	decision core.Decision
	sent     time.Duration // departure of the request
	received time.Duration // arrival of the decision
	until    time.Duration // earliest end of the refusal
	refresh  time.Duration // time of the next check at the store
}

// request returns the request of a client. hash is the first half of the client's hash.
func (r Rule) request(hash uint64, client string, cost int64) request {
	return request{hash, maphash.String(r.cache.seed[1], client), r.id, cost}
}

func (s *shard) changed(hash uint64) *time.Duration { return &s.changes[hash/shards%changes] }

// find returns the refusal of q, or nil. It compares the whole request, since two may have the same key. s.mu must be
// held.
func (s *shard) find(q *request) *refusal {
	if e := s.byKey[q.key()]; e != nil && e.request == *q {
		return e
	}
	return nil
}

// drop deletes the refusal of q. s.mu must be held.
func (s *shard) drop(q *request) {
	if s.find(q) != nil {
		delete(s.byKey, q.key())
		s.nonEmpty.Store(len(s.byKey) > 0)
	}
}

// store puts e into the shard. A full shard evicts an arbitrary refusal, which costs that client one request. s.mu must
// be held.
func (s *shard) store(e *refusal) {
	if _, known := s.byKey[e.key()]; !known && len(s.byKey) >= shardSize {
		for other := range s.byKey {
			delete(s.byKey, other)
			break
		}
	}
	s.byKey[e.key()] = e
	s.nonEmpty.Store(true)
}

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
	changes   = 256 // of clients that do not share theirs, in a shard
)

// shard holds the refusals of some clients.
type shard struct {
	mu    sync.Mutex
	byKey map[uint64]*refusal // by request.key; where two requests have the same key, the newer stays
	any   atomic.Bool         // whether byKey has any; mostly not, and an admission takes no lock (TestNoLock)

	// changes has, by a client's hash, when Changed was last called: an answer to an earlier question is not believed.
	changes [changes]time.Duration

	answered uint64 // requests that were answered from the shard
}

// request is a client, by its hash, and what the client was refused.
type request struct {
	low, high uint64
	rule      uint64
	cost      int64
}

// key spreads as well as the client's hash does.
func (q *request) key() uint64 {
	return q.low ^ (q.rule<<32+uint64(q.cost))*0x9e3779b97f4a7c15
}

// refusal is a refusal that is remembered.
type refusal struct {
	request
	decision core.Decision
	asked    time.Duration // when the question was sent
	received time.Duration // when the decision came
	until    time.Duration // when the refusal may end
	check    time.Duration // when to ask again
}

// request returns what a refusal of the client is remembered by. hash is the first half of the client's hash.
func (r Rule) request(hash uint64, client string, cost int64) request {
	return request{hash, maphash.String(r.refusals.seed[1], client), r.id, cost}
}

func (s *shard) changed(hash uint64) *time.Duration { return &s.changes[hash/shards%changes] }

// find returns what is remembered of q, or nil. Requests may have the same key (TestSameKey). s.mu must be held.
func (s *shard) find(q *request) *refusal {
	if e := s.byKey[q.key()]; e != nil && e.request == *q {
		return e
	}
	return nil
}

// drop forgets what is remembered of q. s.mu must be held.
func (s *shard) drop(q *request) {
	if s.find(q) != nil {
		delete(s.byKey, q.key())
		s.any.Store(len(s.byKey) > 0)
	}
}

// remember puts e into the shard, in the place of an arbitrary other refusal if the shard is full: that costs the
// other client one question (TestBounded). s.mu must be held.
func (s *shard) remember(e *refusal) {
	if _, known := s.byKey[e.key()]; !known && len(s.byKey) >= shardSize {
		for other := range s.byKey {
			delete(s.byKey, other)
			break
		}
	}
	s.byKey[e.key()] = e
	s.any.Store(true)
}

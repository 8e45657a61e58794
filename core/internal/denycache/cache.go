package denycache

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	// RefreshInterval is the time between two checks of a cached refusal at the store. A reset by another process takes
	// effect within this time.
	RefreshInterval = time.Second

	// refreshDelay is the time between the departure of a caller that was checking and the next check. It protects the
	// store from a flood of callers that leave.
	refreshDelay = RefreshInterval / 100
)

// Cache holds refusals by rule, client and cost. It is safe for concurrent use.
type Cache struct {
	seed   [2]maphash.Seed
	start  time.Time // origin of all times, by the monotonic clock; 0 is before any request
	rules  atomic.Uint64
	shards [shards]shard

	mu     sync.Mutex         // guards counts
	counts map[uint64]*counts // by the hash of Name and Rule
}

// counts identifies the counts that bindings of the same Name and Rule share.
type counts struct {
	hash   uint64
	limits []core.Limit // limits of the first rule
	mixed  atomic.Bool  // another rule or a request has other limits
}

// New returns an empty cache.
func New() *Cache {
	r := &Cache{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, start: time.Now().Add(-1)}
	r.counts = map[uint64]*counts{}
	for i := range r.shards {
		r.shards[i].byKey = map[uint64]*refusal{}
	}
	return r
}

// Rule is the part of a cache for one rule.
type Rule struct {
	cache  *Cache
	id     uint64
	counts *counts
}

// Rule returns the part of the cache for a new rule.
func (r *Cache) Rule(by core.Binding) Rule {
	hash := maphash.Comparable(r.seed[0], [2]string{by.Name, by.Rule})
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[hash]
	if c == nil {
		c = &counts{hash: hash, limits: by.Limits}
		r.counts[hash] = c
	} else if !slices.Equal(c.limits, by.Limits) {
		c.mixed.Store(true)
	}
	return Rule{r, r.rules.Add(1), c}
}

// withLimits returns the part of the cache for a request's own limits on the same counts.
func (r Rule) withLimits(limits []core.Limit) Rule {
	if !r.counts.mixed.Load() {
		r.counts.mixed.Store(true)
	}
	for _, l := range limits {
		r.id = 31*r.id + maphash.Comparable(r.cache.seed[0], l)
	}
	return r
}

// canBypass reports whether a request may be admitted while other limits on its counts refuse.
func (r Rule) canBypass(o *core.Override) bool {
	return r.counts.mixed.Load() || o != nil && o.Delay == 0
}

// shard returns the shard of a client, and the first half of the hash of the client and its counts.
func (r Rule) shard(client string) (*shard, uint64) {
	hash := maphash.String(r.cache.seed[0], client) ^ r.counts.hash
	return &r.cache.shards[hash%shards], hash
}

// Lookup sets answer to the cached refusal of a client, as of now, and reports whether there is one. Once a second it
// returns false to one caller with canRefresh: that caller checks the refusal at the store.
func (r Rule) Lookup(client string, cost int64, answer *core.Decision, canRefresh bool) bool {
	s, hash := r.shard(client)
	if !s.nonEmpty.Load() {
		return false
	}
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(r.cache.start) // under the lock, so that it is after every cached refusal
	e := s.find(&q)
	switch {
	case e == nil:
		return false
	case now >= e.until, e.sent <= *s.changed(hash):
		s.drop(&q)
		return false
	case canRefresh && now >= e.refresh:
		e.refresh = now + RefreshInterval
		return false
	}
	s.hits++
	later := (now - e.received).Truncate(time.Microsecond) // the store's clock has advanced by at least this much
	answer.Limit, answer.Remaining = e.decision.Limit, e.decision.Remaining
	answer.At = e.decision.At.Add(later)
	answer.ResetAfter = max(0, e.decision.ResetAfter-later)
	answer.RetryAfter, answer.Source = e.decision.RetryAfter, core.SourceCached
	if answer.RetryAfter != core.Never {
		answer.RetryAfter -= later
	}
	return true
}

// Record caches the store's answer to a request sent at the given time if it is a refusal that lasts, and otherwise
// drops the cached refusal.
func (r Rule) Record(client string, cost int64, sent time.Time, answer core.Decision) {
	s, hash := r.shard(client)
	cacheable := isCacheable(cost, &answer)
	if !cacheable && !s.nonEmpty.Load() {
		return
	}
	start, now := sent.Sub(r.cache.start), time.Since(r.cache.start)
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !cacheable || start <= *s.changed(hash) {
		s.drop(&q)
		return
	}
	s.store(&refusal{
		request: q, decision: answer, sent: start, received: now, refresh: start + RefreshInterval,
		until: start + min(answer.ResetAfter, answer.RetryAfter),
	})
}

// isCacheable reports whether answer is a refusal whose numbers are constant until it ends: no other request can be
// admitted, since nothing remains. The answer of a counter or a bucket to a larger cost changes before that
// cost passes.
func isCacheable(cost int64, answer *core.Decision) bool {
	return !answer.Allowed && answer.Remaining == 0 && (cost == 1 || answer.Limit.Algorithm.CanLease())
}

// Abandon lets another caller check a refusal soon, after a caller left that may have been checking it.
func (r Rule) Abandon(client string, cost int64) {
	s, hash := r.shard(client)
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(&q); e != nil {
		e.refresh = min(e.refresh, time.Since(r.cache.start)+refreshDelay)
	}
}

// Invalidate ends the refusals of a client under all rules on the same counts, also the ones in flight. It is called
// after a return, a charge, a reset or an admission by other limits, also if one of them fails.
func (r Rule) Invalidate(client string) {
	s, hash := r.shard(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.changed(hash) = time.Since(r.cache.start)
}

// Stats returns the number of cached refusals, and of the requests that they answered. A refusal that has ended counts
// until the next request of its client drops it.
func (r *Cache) Stats() (held int64, hits uint64) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		held += int64(len(s.byKey))
		hits += s.hits
		s.mu.Unlock()
	}
	return held, hits
}

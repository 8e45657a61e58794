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
	// AskAgain is how long a refusal is remembered without a question whether it still holds: a reset by another
	// process is seen after that time.
	AskAgain = time.Second

	// turn is how soon after a caller that was to ask has left another caller asks. A flood of callers that leave
	// must not reach the store either.
	turn = AskAgain / 100
)

// Refusals are the refusals that a process remembers, by rule, client and cost. It is safe for concurrent use.
type Refusals struct {
	seed   [2]maphash.Seed
	start  time.Time // times are counted from here, by this process's monotonic clock; 0 is before any question
	rules  atomic.Uint64
	shards [shards]shard

	mu     sync.Mutex         // guards counts
	counts map[uint64]*counts // of the rules, by Name and Rule
}

// counts are the counts that the rules of one Name and Rule share.
type counts struct {
	hash    uint64
	limits  []core.Limit // of the first rule
	several atomic.Bool  // whether another rule or a request has other limits
}

// New returns refusals, of which there are none yet.
func New() *Refusals {
	r := &Refusals{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, start: time.Now().Add(-1)}
	r.counts = map[uint64]*counts{}
	for i := range r.shards {
		r.shards[i].byKey = map[uint64]*refusal{}
	}
	return r
}

// Rule is the refusals by one rule.
type Rule struct {
	refusals *Refusals
	id       uint64
	counts   *counts
}

// Rule returns the refusals by another rule than all before.
func (r *Refusals) Rule(by core.Binding) Rule {
	hash := maphash.Comparable(r.seed[0], [2]string{by.Name, by.Rule})
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[hash]
	if c == nil {
		c = &counts{hash: hash, limits: by.Limits}
		r.counts[hash] = c
	} else if !slices.Equal(c.limits, by.Limits) {
		c.several.Store(true)
	}
	return Rule{r, r.rules.Add(1), c}
}

// with returns the refusals by other limits on the same counts, those of a request.
func (r Rule) with(limits []core.Limit) Rule {
	if !r.counts.several.Load() {
		r.counts.several.Store(true)
	}
	for _, l := range limits {
		r.id = 31*r.id + maphash.Comparable(r.refusals.seed[0], l)
	}
	return r
}

// beyond reports whether a request with an override may be admitted where limits that share its counts refuse.
func (r Rule) beyond(o *core.Override) bool {
	return r.counts.several.Load() || o != nil && o.Ahead == 0
}

// shard returns the shard of a client, and the first half of the hash of the client and its counts.
func (r Rule) shard(client string) (*shard, uint64) {
	hash := maphash.String(r.refusals.seed[0], client) ^ r.counts.hash
	return &r.refusals.shards[hash%shards], hash
}

// Lookup sets answer to the remembered refusal of a client, as of now, and reports whether there is one. Once a second,
// for one caller that can ask, it reports false all the same: that caller asks the store whether the refusal still
// holds.
func (r Rule) Lookup(client string, cost int64, answer *core.Decision, canAsk bool) bool {
	s, hash := r.shard(client)
	if !s.any.Load() {
		return false
	}
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(r.refusals.start) // under the lock: no refusal has come later
	e := s.find(&q)
	switch {
	case e == nil:
		return false
	case now >= e.until, e.asked <= *s.changed(hash):
		s.drop(&q)
		return false
	case canAsk && now >= e.check:
		e.check = now + AskAgain
		return false
	}
	s.answered++
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

// Note learns from the store's answer to a question that was sent at the given time, and remembers the answer if it
// is a refusal that lasts.
func (r Rule) Note(client string, cost int64, sent time.Time, answer core.Decision) {
	s, hash := r.shard(client)
	last := lasts(cost, &answer)
	if !last && !s.any.Load() {
		return
	}
	asked, now := sent.Sub(r.refusals.start), time.Since(r.refusals.start)
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !last || asked <= *s.changed(hash) {
		s.drop(&q)
		return
	}
	s.remember(&refusal{
		request: q, decision: answer, asked: asked, received: now, check: asked + AskAgain,
		until: asked + min(answer.ResetAfter, answer.RetryAfter),
	})
}

// lasts reports whether answer is a refusal with numbers that stay as they are until it ends: nothing remains that
// another request could be admitted for. A counter's answer to a larger cost changes before that cost passes.
func lasts(cost int64, answer *core.Decision) bool {
	return !answer.Allowed && answer.Remaining == 0 && (cost == 1 || answer.Limit.Algorithm.Leasable())
}

// Unanswered notes that a caller has left, which may be the one that was to ask.
func (r Rule) Unanswered(client string, cost int64) {
	s, hash := r.shard(client)
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(&q); e != nil {
		e.check = min(e.check, time.Since(r.refusals.start)+turn)
	}
}

// Changed ends what is remembered of a client under all rules on the same counts, and does not believe answers that
// are on their way: units of the client have been given back, or charged beyond a limit, or admitted by other limits,
// or the client has been reset.
func (r Rule) Changed(client string) {
	s, hash := r.shard(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.changed(hash) = time.Since(r.refusals.start)
}

// Stats returns how many refusals are remembered, and how many requests they have
// answered. A refusal that has ended is dropped at the next request of its client, and
// counts until then.
func (r *Refusals) Stats() (held int64, answered uint64) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		held += int64(len(s.byKey))
		answered += s.answered
		s.mu.Unlock()
	}
	return held, answered
}

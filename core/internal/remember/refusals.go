package remember

import (
	"hash/maphash"
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
}

// New returns refusals, of which there are none yet.
func New() *Refusals {
	r := &Refusals{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, start: time.Now().Add(-1)}
	for i := range r.shards {
		r.shards[i].byKey = map[uint64]*refusal{}
	}
	return r
}

// Rule is the refusals by one rule.
type Rule struct {
	refusals *Refusals
	id       uint64
	own      bool // by limits of a request, beside which the rule's limits may admit
}

// Rule returns the refusals by another rule than all before.
func (r *Refusals) Rule() Rule { return Rule{refusals: r, id: r.rules.Add(1)} }

// With returns the refusals by the same rule with other Requests.
func (r Rule) With(limits []core.Limit) Rule {
	var hash maphash.Hash
	hash.SetSeed(r.refusals.seed[0])
	maphash.WriteComparable(&hash, r.id)
	for i := range limits {
		maphash.WriteComparable(&hash, limits[i].Requests)
	}
	return Rule{r.refusals, hash.Sum64(), true}
}

// ends reports whether an admission of the client ends a refusal.
func (r Rule) ends(refusal *core.Decision) bool { return refusal.Remaining > 0 || r.own }

// shard returns the shard of a client, and the first half of the client's hash.
func (r *Refusals) shard(client string) (*shard, uint64) {
	hash := maphash.String(r.seed[0], client)
	return &r.shards[hash%shards], hash
}

// Lookup sets answer to the remembered refusal of a client, as of now, and reports whether there is one. Once a second,
// for one caller that can ask, it reports false all the same: that caller asks the store whether the refusal still
// holds.
func (r Rule) Lookup(client string, cost int64, answer *core.Decision, canAsk bool) bool {
	s, hash := r.refusals.shard(client)
	if !s.watched.Load() {
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
	case now >= e.until, r.ends(&e.decision) && s.newsOf(hash).at >= e.asked:
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
	answer.RetryAfter, answer.Source = e.decision.RetryAfter, core.SourceRemembered
	if answer.RetryAfter != core.Never {
		answer.RetryAfter -= later
	}
	return true
}

// Note learns from the store's answer to a question that was sent at the given time, and remembers the answer if it
// is a refusal that lasts.
func (r Rule) Note(client string, cost int64, sent time.Time, answer core.Decision) {
	s, hash := r.refusals.shard(client)
	if answer.Allowed && !s.watched.Load() {
		return
	}
	asked, now := sent.Sub(r.refusals.start), time.Since(r.refusals.start)
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.newsOf(hash)
	if answer.Allowed {
		news.at = max(news.at, now)
	} else { // rules with other Requests may be on the same count
		limit := maphash.String(r.refusals.seed[0], answer.Limit.Name) ^ uint64(answer.Limit.Requests)<<24
		news.refused(limit^uint64(answer.Remaining), asked, now)
	}
	if !lasts(cost, &answer) || asked <= news.changed {
		s.drop(&q)
		return
	}
	s.watch(r.refusals.start)
	if r.ends(&answer) && asked <= s.watchedFrom {
		s.drop(&q)
		return
	}
	holds := min(answer.ResetAfter, answer.RetryAfter)
	if answer.ResetAfter == 0 {
		// Nothing is counted: the cost is above the limit. The refusal has to last until one request has asked again,
		// while the others are refused.
		holds = 2 * AskAgain
	}
	s.remember(&refusal{
		request: q, decision: answer, asked: asked, received: now, until: asked + holds, check: asked + AskAgain,
	})
}

// lasts reports whether answer is a refusal with numbers that stay as they are until it ends. A counter's answer to a
// larger cost changes before that cost passes.
func lasts(cost int64, answer *core.Decision) bool {
	return !answer.Allowed && (cost == 1 || answer.Limit.Algorithm.Steady())
}

// Unanswered notes that a caller has left, which may be the one that was to ask.
func (r Rule) Unanswered(client string, cost int64) {
	s, hash := r.refusals.shard(client)
	q := r.request(hash, client, cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(&q); e != nil {
		e.check = min(e.check, time.Since(r.refusals.start)+turn)
	}
}

// Changed drops what is remembered of a client under any rule, and does not believe answers that are on their way:
// units of the client have been given back, or charged beyond a limit, or the client has been reset.
func (r *Refusals) Changed(client string) {
	s, hash := r.shard(client)
	high := maphash.String(r.seed[1], client)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.byKey {
		if e.low == hash && e.high == high {
			delete(s.byKey, key)
		}
	}
	s.watched.Store(len(s.byKey) > 0)
	s.newsOf(hash).changed = time.Since(r.start)
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

package redisstore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// denials remembers refusals for as long as they are certain to last, and for at
// most a second at a time, so that a flood on a client that is refused anyway costs
// Redis one command a second from this process.
//
// A refusal with nothing remaining holds, number for number, until the oldest
// counted unit leaves or, for a counter, until the request may pass or a fixed
// window ends. Only a reset can end the refusal sooner. Its end is reckoned from
// before the question was sent, so it never lasts a moment too long.
//
// A refusal of a SlidingLog with something remaining holds too, but its numbers are
// true only until a smaller cost is admitted. The refusal is forgotten as soon as
// this process may have been told of a later state of the client; see news. An
// admission by another process is seen within a second.
//
// After a second one request asks Redis again, and the others are still refused from
// memory: so a reset by another process is seen within a second. If the caller of
// that request leaves before the reply, another request asks soon after.
//
// A full shard gives up an arbitrary refusal for a new one. An attacker with many
// refused clients can so push out the refusals of others, each of which then costs
// Redis a command more. The memory is bounded, and nobody is admitted by that.
type denials struct {
	seed   [2]maphash.Seed
	start  time.Time // times are counted from here, by this process's monotonic clock
	shards [denialShards]denialShard
}

const (
	denialShards   = 64
	denialsInShard = 512 // some 10 MB in all when full
	denialCheck    = time.Second
	denialRecheck  = denialCheck / 100 // a flood of callers that leave must not reach Redis either
	denialNews     = 256               // of a shard: clients that have no other's news, by their hash
)

type denialShard struct {
	mu    sync.Mutex
	byKey map[uint64]*denial // by denied.key; where two refusals have the same key, the newer stays
	any   atomic.Bool        // reports whether byKey holds any: mostly it holds none, and no lock is needed
	reset time.Duration      // the time of the last reset: an answer to an earlier question is not believed
	news  [denialNews]news
}

// news is what this process has been told of the state of a client, or of the few
// clients that share it. It decides how long a refusal with something remaining is
// remembered: an answer that was given before must not be contradicted.
type news struct {
	// at is when an answer came that may know of more admissions than a refusal
	// which was asked for at that time or before.
	at atomic.Int64

	// told is a hash of the numbers of the newest refusal, see denials.told, and toldAt
	// is when a refusal with these numbers came last. The shard's lock guards both.
	told   uint64
	toldAt time.Duration
}

// heard moves n.at forward to at.
func (n *news) heard(at time.Duration) {
	for {
		old := n.at.Load()
		if old >= int64(at) || n.at.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}

// current reports whether no later state than that of a question sent at asked has
// been told.
func (n *news) current(asked time.Duration) bool { return n.at.Load() < int64(asked) }

// refused notes the numbers of a refusal that was asked for at asked and came at now.
// Other numbers than before show an admission of which the refusals that are
// remembered do not know. If the numbers before came while this refusal was under
// way, either may be the later one, and neither is kept. The shard's lock must be
// held.
func (n *news) refused(told uint64, asked, now time.Duration) {
	switch {
	case told == n.told:
	case n.toldAt < asked:
		n.heard(asked - 1)
	default:
		n.heard(now)
	}
	n.told, n.toldAt = told, now
}

func (s *denialShard) newsOf(hash uint64) *news { return &s.news[hash/denialShards%denialNews] }

// drop forgets what is remembered for who. s.mu must be held.
func (s *denialShard) drop(who denied) {
	if e := s.byKey[who.key()]; e != nil && e.denied == who {
		delete(s.byKey, who.key())
		s.any.Store(len(s.byKey) > 0)
	}
}

// denied is a client, by its hash, and what the client was refused.
type denied struct {
	low, high uint64
	counts    *counts
	cost      int64
}

// key spreads as well as the client's hash does.
func (w *denied) key() uint64 {
	return w.low ^ (w.counts.id<<32+uint64(w.cost))*0x9e3779b97f4a7c15
}

type denial struct {
	denied
	decision core.Decision
	asked    time.Duration // when the question was sent
	received time.Duration // when the decision came
	until    time.Duration // when the refusal may end
	check    time.Duration // when to ask again
}

func newDenials() *denials {
	d := &denials{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, start: time.Now()}
	for i := range d.shards {
		s := &d.shards[i]
		s.byKey = map[uint64]*denial{}
		s.reset = -1
		for j := range s.news {
			s.news[j].at.Store(-1)
			s.news[j].toldAt = -1
		}
	}
	return d
}

// shard returns the shard of a client, and the first half of the client's hash.
func (d *denials) shard(client string) (*denialShard, uint64) {
	hash := maphash.String(d.seed[0], client)
	return &d.shards[hash%denialShards], hash
}

func (d *denials) who(hash uint64, c *counts, client string, cost int64) denied {
	return denied{hash, maphash.String(d.seed[1], client), c, cost}
}

// find sets answer to the remembered refusal, as of now, and returns found. Once a
// second, for one caller, it returns asks instead: that caller has to ask Redis
// whether the refusal still holds.
func (d *denials) find(c *counts, client string, cost int64, answer *core.Decision) (found, asks bool) {
	return d.lookup(c, client, cost, true, answer)
}

// stands sets answer to the remembered refusal, as of now, and reports whether there
// is one. It is for a caller that could not ask Redis.
func (d *denials) stands(c *counts, client string, cost int64, answer *core.Decision) bool {
	found, _ := d.lookup(c, client, cost, false, answer)
	return found
}

func (d *denials) lookup(c *counts, client string, cost int64, mayAsk bool, answer *core.Decision) (found, asks bool) {
	shard, hash := d.shard(client)
	if !shard.any.Load() {
		return false, false
	}
	who := d.who(hash, c, client, cost)
	now := time.Since(d.start)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.byKey[who.key()]
	switch {
	case e == nil || e.denied != who:
		return false, false
	case now >= e.until, e.decision.Remaining > 0 && !shard.newsOf(hash).current(e.asked):
		shard.drop(who)
		return false, false
	case mayAsk && now >= e.check:
		e.check = now + denialCheck
		return false, true
	}
	e.tell(now, answer)
	return true, false
}

// tell sets answer to the refusal as of now.
func (e *denial) tell(now time.Duration, answer *core.Decision) {
	// The store's clock has advanced by at least this much. The decision may have
	// come after now was read.
	later := max(0, now-e.received).Truncate(time.Microsecond)
	answer.Limit, answer.Remaining = e.decision.Limit, e.decision.Remaining
	answer.At = e.decision.At.Add(later)
	answer.ResetAfter = max(0, e.decision.ResetAfter-later)
	answer.RetryAfter, answer.Source = e.decision.RetryAfter, core.Remembered
	if answer.RetryAfter != core.Never {
		answer.RetryAfter -= later
	}
}

// note learns from an answer of Redis to a question sent at the given time, and
// remembers the answer if it is a refusal.
func (d *denials) note(c *counts, client string, cost int64, sent time.Time, answer core.Decision) {
	shard, hash := d.shard(client)
	news := shard.newsOf(hash)
	asked, now := sent.Sub(d.start), time.Since(d.start)
	if answer.Allowed {
		news.heard(now)
		if !shard.any.Load() {
			return
		}
	}
	who := d.who(hash, c, client, cost)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if !answer.Allowed {
		news.refused(d.told(&answer), asked, now)
	}
	// A counter's answer to a larger cost changes before that cost passes.
	lasts := !answer.Allowed && (cost == 1 || answer.Limit.Algorithm == core.SlidingLog)
	if !lasts || asked <= shard.reset || answer.Remaining > 0 && !news.current(asked) {
		shard.drop(who)
		return
	}
	shard.remember(&denial{denied: who, decision: answer, asked: asked, received: now})
}

// told returns a hash of the numbers of a refusal. Rules with other Requests may be on the
// same count.
func (d *denials) told(answer *core.Decision) uint64 {
	limit := &answer.Limit
	return maphash.String(d.seed[0], limit.Name) ^ uint64(limit.Requests)<<24 ^ uint64(answer.Remaining)
}

// remember puts e into the shard, in the place of an arbitrary other refusal if the
// shard is full: that costs the other client one command. s.mu must be held.
func (s *denialShard) remember(e *denial) {
	if _, known := s.byKey[e.key()]; !known && len(s.byKey) >= denialsInShard {
		for other := range s.byKey {
			delete(s.byKey, other)
			break
		}
	}
	holds := min(e.decision.ResetAfter, e.decision.RetryAfter)
	if e.decision.ResetAfter == 0 {
		// Nothing is counted: the cost is above the limit. The refusal has to last
		// until one request has asked again, while the others are refused.
		holds = 2 * denialCheck
	}
	e.until, e.check = e.asked+holds, e.asked+denialCheck
	s.byKey[e.key()] = e
	s.any.Store(true)
}

// unanswered notes that a caller has left, which may be the one that was to ask.
func (d *denials) unanswered(c *counts, client string, cost int64) {
	shard, hash := d.shard(client)
	if !shard.any.Load() {
		return
	}
	who := d.who(hash, c, client, cost)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if e := shard.byKey[who.key()]; e != nil && e.denied == who {
		e.check = min(e.check, time.Since(d.start)+denialRecheck)
	}
}

// forget drops what is remembered of a client under any rule, with what else is in
// the client's shard, and does not believe answers that are on their way.
func (d *denials) forget(client string) {
	shard, _ := d.shard(client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	clear(shard.byKey)
	shard.any.Store(false)
	shard.reset = time.Since(d.start)
}

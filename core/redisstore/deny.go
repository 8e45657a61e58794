package redisstore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// denials remembers refusals for as long as they are certain to last, and at
// most for a second at a time: a flood on a client that is refused anyway costs
// Redis one command a second from this process.
//
// A refusal with nothing remaining holds, number for number, until the oldest
// counted unit leaves or, of a counter, the request may pass or a fixed window
// ends; nothing but a reset can shorten that. It is reckoned from before the
// question was sent, so it never lasts a moment too long. So does one of a log by
// which something remains, for smaller costs; but its numbers are true only until
// such a one is admitted: by this process, which asks again then, or by another.
// After a second one request asks again, while the others are still refused:
// so a reset by another process is seen within a second. If that one leaves
// before it is answered, another asks soon after.
type denials struct {
	seed   [2]maphash.Seed
	start  time.Time // times are counted from here, by this process's monotonic clock
	shards [denialShards]denialShard
}

const (
	denialShards   = 64
	denialsInShard = 512 // some 10 MB in all when full
	denialCheck    = time.Second
	denialRecheck  = denialCheck / 100 // a flood of those who leave is not to reach Redis either
	denialMoves    = 256               // clients in a shard whose admissions are told apart
)

type denialShard struct {
	mu    sync.Mutex
	of    map[uint64]*denial  // by denied.key; of two that meet there, the newer
	any   atomic.Bool         // whether there are any, kept beside: mostly there are none
	reset time.Duration       // when: what was asked before is not believed any more
	moved [denialMoves]uint32 // counts admissions while there are any, by client
}

// moves is where the admissions of a client are counted, and of few others.
func (s *denialShard) moves(hash uint64) *uint32 {
	return &s.moved[hash/denialShards%denialMoves]
}

func (s *denialShard) drop(who denied) {
	if e := s.of[who.key()]; e != nil && e.denied == who {
		delete(s.of, who.key())
		s.any.Store(len(s.of) > 0)
	}
}

// denied is who was refused what: the client by its hash.
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
	moved    uint32        // the client's, then
	received time.Duration // when the decision came
	until    time.Duration // when it may end
	check    time.Duration // when to ask again
}

func newDenials() *denials {
	d := &denials{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, start: time.Now()}
	for i := range d.shards {
		d.shards[i].of = map[uint64]*denial{}
		d.shards[i].reset = -1
	}
	return d
}

// shard is where a client's are, and the first half of its hash.
func (d *denials) shard(client string) (*denialShard, uint64) {
	hash := maphash.String(d.seed[0], client)
	return &d.shards[hash%denialShards], hash
}

func (d *denials) who(hash uint64, c *counts, client string, cost int64) denied {
	return denied{hash, maphash.String(d.seed[1], client), c, cost}
}

// find sets answer to the refusal that stands, as of now, if there is one; or
// this is the one who is to ask whether it still does.
func (d *denials) find(c *counts, client string, cost int64, answer *core.Decision) (found, asks bool) {
	return d.look(c, client, cost, true, answer)
}

// stands is find for one who has asked and could not be told.
func (d *denials) stands(c *counts, client string, cost int64, answer *core.Decision) bool {
	found, _ := d.look(c, client, cost, false, answer)
	return found
}

func (d *denials) look(c *counts, client string, cost int64, mayAsk bool, answer *core.Decision) (found, asks bool) {
	shard, hash := d.shard(client)
	if !shard.any.Load() {
		return false, false
	}
	who := d.who(hash, c, client, cost)
	now := time.Since(d.start)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.of[who.key()]
	switch {
	case e == nil || e.denied != who:
		return false, false
	case now >= e.until, e.decision.Remaining > 0 && e.moved != *shard.moves(hash):
		shard.drop(who)
		return false, false
	case mayAsk && now >= e.check:
		e.check = now + denialCheck
		return false, true
	}
	// By the store's clock it is at least this much later than then. The answer
	// may have come while this waited for the lock.
	later := max(0, now-e.received).Truncate(time.Microsecond)
	answer.Limit, answer.Remaining = e.decision.Limit, e.decision.Remaining
	answer.At = e.decision.At.Add(later)
	answer.ResetAfter = max(0, e.decision.ResetAfter-later)
	answer.RetryAfter, answer.Err = e.decision.RetryAfter, core.ErrRemembered
	if answer.RetryAfter != core.Never {
		answer.RetryAfter -= later
	}
	return true, false
}

// note remembers what was answered to a question sent at the given time.
func (d *denials) note(c *counts, client string, cost int64, sent time.Time, answer core.Decision) {
	// What a larger cost is told of a counter changes before it passes.
	worth := !answer.Allowed && (cost == 1 || answer.Limit.Algorithm == core.SlidingLog)
	shard, hash := d.shard(client)
	if !worth && !shard.any.Load() {
		return
	}
	who := d.who(hash, c, client, cost)
	asked, now := sent.Sub(d.start), time.Since(d.start)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if answer.Allowed {
		*shard.moves(hash)++
	}
	if !worth || asked <= shard.reset {
		shard.drop(who)
		return
	}
	if _, known := shard.of[who.key()]; !known && len(shard.of) >= denialsInShard {
		for other := range shard.of { // any: it costs that client one command
			delete(shard.of, other)
			break
		}
	}
	stands := min(answer.ResetAfter, answer.RetryAfter)
	if answer.ResetAfter == 0 { // nothing is counted: it costs more than the limit
		stands = 2 * denialCheck // longer than till one asks again, while the others are refused
	}
	shard.of[who.key()] = &denial{
		denied:   who,
		decision: answer,
		moved:    *shard.moves(hash),
		received: now,
		until:    asked + stands,
		check:    asked + denialCheck,
	}
	shard.any.Store(true)
}

// unanswered tells that who may have been asking has left.
func (d *denials) unanswered(c *counts, client string, cost int64) {
	shard, hash := d.shard(client)
	if !shard.any.Load() {
		return
	}
	who := d.who(hash, c, client, cost)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if e := shard.of[who.key()]; e != nil && e.denied == who {
		e.check = min(e.check, time.Since(d.start)+denialRecheck)
	}
}

// forget drops what is remembered of a client under any rule, and does not
// believe answers that are on their way.
func (d *denials) forget(client string) {
	shard, _ := d.shard(client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	clear(shard.of)
	shard.any.Store(false)
	shard.reset = time.Since(d.start)
}

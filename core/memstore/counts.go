package memstore

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// counts is a rule bound to its store.
type counts struct {
	store  *Store
	limits []limit
}

var (
	_ core.Counts    = (*counts)(nil)
	_ core.Immediate = (*counts)(nil)
)

type limit struct {
	core.Limit
	window       window.Limit
	ident, bound uint32
}

// Immediate implements [core.Immediate].
func (c *counts) Immediate() {}

// attempts bounds how often a newcomer makes room and finds it taken by others.
const attempts = 64

// Take implements [core.Counts]. It ignores the context: it waits for nothing.
func (c *counts) Take(_ context.Context, key string, cost int64, charge bool) (d core.Decision, err error) {
	h := c.store.hash(key)
	sh := c.store.shard(h)
	for range attempts {
		now := c.store.lock(sh)
		v, binding, at, lacks := c.take(sh, h, now, cost, charge)
		// Before the lock is released, which waits until all is written: whoever
		// copied d at once would have to.
		d.Allowed = v.Admitted
		d.Limit = c.limits[binding].Limit
		d.Remaining = v.Remaining
		d.ResetAfter = window.Duration(v.ResetAfter)
		d.RetryAfter = window.Duration(v.RetryAfter)
		d.At = time.UnixMicro(at)
		// Afterwards, so that a client who is back keeps the room of its log.
		if sh.asked++; sh.asked%sweepEvery == 0 {
			sh.sweep(c.store, now)
		}
		sh.mu.Unlock()
		if lacks.none() {
			return d, nil
		}
		if !c.store.makeRoom(sh, h, lacks, now) {
			break
		}
	}
	return core.Decision{}, core.ErrStoreFull
}

// need is the memory that a charge lacks.
type need struct {
	slots int   // in the key's own shard
	bytes int64 // for rings
	total int64 // with what it takes to allocate those slots
}

func (n need) none() bool { return n == need{} }

// take decides under the shard's lock: it returns the verdict of the limit that
// binds, which one that is, and the time of the decision. It charges nothing if
// it needs memory.
func (c *counts) take(sh *shard, h hash, now, cost int64, charge bool) (v window.Verdict, binding int, at int64, lacks need) {
	if len(c.limits) == 1 && charge {
		if v, stamp, done := c.limits[0].take(c.store, sh, h, now, cost); done {
			return v, 0, stamp, need{}
		}
	}
	var few [8]*slot
	slots := few[:] // of the limits; nil where nothing is counted
	if len(c.limits) > len(few) {
		slots = make([]*slot, len(c.limits))
	}
	stamp := now
	for i := range c.limits {
		l := &c.limits[i]
		s := sh.find(h, l.ident)
		slots[i] = s
		if s == nil {
			continue
		}
		if s.bound != l.bound {
			s.bound = l.bound
			s.log.Spare = [3]byte{}
			sh.victims = victims{} // who may go has changed
			c.store.stuck.Store(0)
			c.store.changed.Store(true)
		}
		stamp = max(stamp, l.begun(s))
	}

	for i := range c.limits {
		l := &c.limits[i]
		one := l.decide(slots[i], now, stamp, cost)
		if i == 0 || one.Binds(v) {
			v, binding = one, i
		}
		if charge && cost > 1 && !one.Admitted {
			l.refused(c.store, sh, slots[i], cost)
		}
	}

	if !charge || !v.Admitted || cost == 0 {
		return v, binding, now, need{}
	}
	return v, binding, stamp, c.charge(sh, h, slots, now, stamp, cost)
}

// take decides and charges where a limit is alone and nothing else is to be done:
// the client is known, and its log has room. That is nearly every request, and
// half the work of the general case.
func (l *limit) take(store *Store, sh *shard, h hash, now, cost int64) (v window.Verdict, stamp int64, done bool) {
	s := sh.find(h, l.ident)
	if s == nil || s.bound != l.bound {
		return v, now, false
	}
	stamp = max(now, l.begun(s))
	v = l.decide(s, now, stamp, cost)
	if !v.Admitted || cost == 0 {
		if cost > 1 {
			l.refused(store, sh, s, cost)
		}
		return v, now, true
	}
	if l.Algorithm == core.SlidingLog {
		s.log.Expire(now - l.window.W)
		if !s.log.Fits(cost) {
			return v, now, false
		}
	}
	l.count(s, stamp, cost)
	return v, stamp, true
}

// refused remembers what a client wanted and did not get, by which it is at its
// limit. More than the limit nobody gets, however little is counted.
func (l *limit) refused(store *Store, sh *shard, s *slot, cost int64) {
	if s == nil || cost > l.window.N {
		return
	}
	before := s.wanted(l.window.N)
	s.want(cost, l.window.N)
	if s.wanted(l.window.N) < before { // it may go sooner than is known
		p, _ := sh.place(s.hash, s.ident)
		sh.note(sh.named(p))
		store.stuck.Store(0)
	}
}

// begun is the time before which nothing more can be counted: of the newest entry
// of a log, or when a counter's window began.
func (l *limit) begun(s *slot) int64 {
	if l.Algorithm == core.SlidingLog {
		return s.log.Last
	}
	return s.counter().Start(l.window.W)
}

// count charges a slot that has room.
func (l *limit) count(s *slot, stamp, cost int64) {
	if l.Algorithm == core.SlidingLog {
		s.log.Push(stamp, cost)
		return
	}
	counter := s.counter()
	*counter = counter.At(stamp, l.window.W)
	counter.Cur += cost
}

// decide is the verdict of one limit on a client who has the slot, or none.
func (l *limit) decide(s *slot, now, stamp, cost int64) window.Verdict {
	switch {
	case l.Algorithm == core.SlidingCounter:
		var counter window.Counter
		if s != nil {
			counter = *s.counter()
		}
		return counter.At(stamp, l.window.W).Decide(l.window, now, stamp, cost)
	case s == nil:
		return window.LogFacts{}.Decide(l.window, now, stamp, cost)
	}
	return s.log.Facts(l.window, now, cost).Decide(l.window, now, stamp, cost)
}

// charge counts cost at every limit, or tells what memory that would take.
func (c *counts) charge(sh *shard, h hash, slots []*slot, now, stamp, cost int64) need {
	var newcomers int
	var bytes int64
	for i := range c.limits {
		l, s := &c.limits[i], slots[i]
		if s == nil {
			newcomers++
		}
		if l.Algorithm == core.SlidingLog {
			var none window.Log
			log := &none
			if s != nil {
				log = &s.log
				log.Expire(now - l.window.W)
			}
			if !log.Fits(cost) {
				bytes += ringGrowth(log, cost)
			}
		}
	}
	if newcomers > 0 || bytes > 0 {
		if lacks := sh.grow(c.store, newcomers, bytes); !lacks.none() {
			return lacks
		}
	}
	for i := range c.limits {
		l, s := &c.limits[i], slots[i]
		if s == nil {
			s = sh.insert(h, l)
		}
		if l.Algorithm == core.SlidingCounter || s.log.Fits(cost) {
			l.count(s, stamp, cost)
			continue
		}
		reserved := ringBytes(&s.log) + ringGrowth(&s.log, cost)
		l.count(s, stamp, cost)
		c.store.reserve(ringBytes(&s.log) - reserved)
	}
	if newcomers > 0 && c.store.stuck.Load() != 0 {
		c.store.stuck.Store(0) // they may go sooner than all who were there
	}
	return need{}
}

func ringBytes(l *window.Log) int64 { return ringSize(l.Words()) }

// ringSize is what a ring of so many words takes. The allocator puts a single
// word into a block of two, with somebody else's, which stays while either does.
func ringSize(words int) int64 {
	if words == 1 {
		return 16
	}
	return int64(words) * 8
}

// ringGrowth bounds what a Push(_, cost) that does not fit will take from the
// heap: the allocator rounds up, by less than a quarter.
func ringGrowth(l *window.Log, cost int64) int64 {
	words := l.Grown(cost)
	return int64(words+words/4+2)*8 - ringBytes(l)
}

// Reset implements [core.Counts].
func (c *counts) Reset(_ context.Context, key string) error {
	h := c.store.hash(key)
	sh := c.store.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range c.limits {
		if sh.n == 0 {
			break
		}
		if p, s := sh.place(h, c.limits[i].ident); s != nil {
			sh.remove(c.store, sh.named(p))
			c.store.changed.Store(true)
		}
	}
	return nil
}

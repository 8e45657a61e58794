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
		lacks := c.take(sh, h, now, cost, charge, &d)
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
	return d, core.ErrStoreFull
}

// need is the memory that a charge lacks.
type need struct {
	slots int   // in the key's own shard
	bytes int64 // for rings
	total int64 // with what it takes to allocate those slots
}

func (n need) none() bool { return n == need{} }

// take decides under the shard's lock, into d. It charges nothing if it needs memory.
func (c *counts) take(sh *shard, h hash, now, cost int64, charge bool, d *core.Decision) need {
	var few [8]int
	slots := few[:0] // of the limits; -1 where nothing is counted
	stamp := now
	for i := range c.limits {
		l := &c.limits[i]
		slot := sh.find(h, l.ident)
		if slot >= 0 {
			s := sh.slot(slot)
			if s.bound != l.bound {
				s.bound = l.bound
				sh.victims = victims{} // who may go has changed
				c.store.stuck.Store(0)
			}
			if l.Algorithm == core.SlidingLog {
				stamp = max(stamp, s.newest())
			} else {
				stamp = max(stamp, s.counter().Start(l.window.W))
			}
		}
		slots = append(slots, slot)
	}

	var binding int
	var verdict window.Verdict
	for i, slot := range slots {
		l := &c.limits[i]
		var v window.Verdict
		if l.Algorithm == core.SlidingLog {
			log := sh.log(slot)
			v = log.Facts(l.window, now, cost).Decide(l.window, now, stamp, cost)
		} else {
			v = sh.counter(slot).At(stamp, l.window.W).Decide(l.window, now, stamp, cost)
		}
		if i == 0 || v.Binds(verdict) {
			binding, verdict = i, v
		}
	}

	when := now
	if charge && verdict.Admitted && cost > 0 {
		if lacks := c.charge(sh, h, slots, now, stamp, cost); !lacks.none() {
			return lacks
		}
		when = stamp
	}
	d.Allowed = verdict.Admitted
	d.Limit = c.limits[binding].Limit
	d.Remaining = verdict.Remaining
	d.ResetAfter = window.Duration(verdict.ResetAfter)
	d.RetryAfter = window.Duration(verdict.RetryAfter)
	d.At = time.UnixMicro(when)
	return need{}
}

// charge counts cost at every limit, or tells what memory that would take.
func (c *counts) charge(sh *shard, h hash, slots []int, now, stamp, cost int64) need {
	var newcomers int
	var bytes int64
	for i, slot := range slots {
		l := &c.limits[i]
		if slot < 0 {
			newcomers++
		}
		if l.Algorithm == core.SlidingLog {
			log := sh.log(slot)
			log.Expire(now - l.window.W)
			bytes += ringGrowth(&log, cost)
		}
	}
	if lacks := sh.grow(c.store, newcomers, bytes); !lacks.none() {
		return lacks
	}
	for i, slot := range slots {
		l := &c.limits[i]
		if slot < 0 {
			slot = sh.insert(h, l)
		}
		if l.Algorithm == core.SlidingCounter {
			counter := sh.counter(slot).At(stamp, l.window.W)
			counter.Cur += cost
			sh.slot(slot).setCounter(counter)
			continue
		}
		log := sh.log(slot)
		log.Expire(now - l.window.W)
		if bytes == 0 {
			log.Push(stamp, cost)
		} else {
			reserved := ringBytes(&log) + ringGrowth(&log, cost)
			log.Push(stamp, cost)
			c.store.reserve(ringBytes(&log) - reserved)
		}
		sh.setLog(slot, &log)
	}
	return need{}
}

func ringBytes(l *window.Log) int64 { return ringSize(len(l.Ring)) }

// ringSize is what a ring of so many words takes. The allocator puts a single
// word into a block of two, with somebody else's, which stays while either does.
func ringSize(words int) int64 {
	if words == 1 {
		return 16
	}
	return int64(words) * 8
}

// ringGrowth bounds what Push(_, cost) will take from the heap: the allocator
// rounds up, by less than a quarter.
func ringGrowth(l *window.Log, cost int64) int64 {
	words := l.Grown(cost)
	if words == len(l.Ring) && (cost == 1 || l.Pairs) {
		return 0
	}
	return int64(words+words/4+2)*8 - ringBytes(l)
}

// Reset implements [core.Counts].
func (c *counts) Reset(_ context.Context, key string) error {
	h := c.store.hash(key)
	sh := c.store.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range c.limits {
		if slot := sh.find(h, c.limits[i].ident); slot >= 0 {
			sh.remove(c.store, slot)
		}
	}
	return nil
}

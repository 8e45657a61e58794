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
func (c *counts) Take(_ context.Context, key string, cost int64, charge bool) (core.Decision, error) {
	h := c.store.hash(key)
	sh := c.store.shard(h)
	for range attempts {
		sh.mu.Lock()
		now := c.store.micros() // under the lock, so that a shard's time never steps back
		d, lacks := c.take(sh, h, now, cost, charge)
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

// found is where one limit of a decision stands.
type found struct {
	slot    int // -1: nothing is counted
	counter window.Counter
	log     window.Log
}

// take decides under the shard's lock. It charges nothing if it needs memory.
func (c *counts) take(sh *shard, h hash, now, cost int64, charge bool) (core.Decision, need) {
	sh.sweep(c.store, now)
	var few [4]found
	at := few[:0]
	stamp := now
	for i := range c.limits {
		l := &c.limits[i]
		f := found{slot: sh.find(h, l.ident)}
		if f.slot >= 0 {
			s := sh.slot(f.slot)
			if s.bound != l.bound {
				s.bound = l.bound
				sh.victims = victims{} // who may go has changed
				c.store.stuck.Store(0)
			}
			if l.Algorithm == core.SlidingLog {
				f.log = sh.log(f.slot)
				stamp = max(stamp, s.newest())
			} else {
				f.counter = s.counter()
				stamp = max(stamp, f.counter.Start(l.window.W))
			}
		}
		at = append(at, f)
	}

	var binding int
	var verdict window.Verdict
	for i := range c.limits {
		l, f := &c.limits[i], &at[i]
		var v window.Verdict
		if l.Algorithm == core.SlidingLog {
			v = f.log.Facts(l.window, now, cost).Decide(l.window, now, stamp, cost)
		} else {
			f.counter = f.counter.At(stamp, l.window.W)
			v = f.counter.Decide(l.window, now, stamp, cost)
		}
		if i == 0 || v.Binds(verdict) {
			binding, verdict = i, v
		}
	}

	when := now
	if charge = charge && verdict.Admitted && cost > 0; charge {
		if lacks := c.charge(sh, h, at, now, stamp, cost); !lacks.none() {
			return core.Decision{}, lacks
		}
		when = stamp
	}
	return core.Decision{
		Allowed:    verdict.Admitted,
		Limit:      c.limits[binding].Limit,
		Remaining:  verdict.Remaining,
		ResetAfter: window.Duration(verdict.ResetAfter),
		RetryAfter: window.Duration(verdict.RetryAfter),
		At:         time.UnixMicro(when),
	}, need{}
}

// charge counts cost at every limit, or tells what memory that would take.
func (c *counts) charge(sh *shard, h hash, at []found, now, stamp, cost int64) need {
	var slots int
	var bytes int64
	for i := range c.limits {
		f, l := &at[i], &c.limits[i]
		if f.slot < 0 {
			slots++
		}
		if l.Algorithm == core.SlidingLog {
			f.log.Expire(now - l.window.W)
			bytes += ringGrowth(&f.log, cost)
		}
	}
	if lacks := sh.grow(c.store, slots, bytes); !lacks.none() {
		return lacks
	}
	for i := range c.limits {
		f, l := &at[i], &c.limits[i]
		if f.slot < 0 {
			f.slot = sh.insert(h, l)
		}
		if l.Algorithm == core.SlidingCounter {
			f.counter.Cur += cost
			sh.slot(f.slot).setCounter(f.counter)
			continue
		}
		reserved := ringBytes(&f.log) + ringGrowth(&f.log, cost)
		f.log.Push(stamp, cost)
		c.store.reserve(ringBytes(&f.log) - reserved)
		sh.setLog(f.slot, f.log, stamp)
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
	if words == len(l.Ring) && (cost == 1 || l.Base > 0) {
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

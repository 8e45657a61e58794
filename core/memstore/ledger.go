package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// ledger is a rule bound to its store.
type ledger struct {
	store  *Store
	limits []limit
}

var (
	_ core.Ledger    = (*ledger)(nil)
	_ core.Immediate = (*ledger)(nil)
)

type limit struct {
	core.Limit
	bound         bound
	ident, number uint32 // of its counts and of its bound
}

// Immediate implements [core.Immediate].
func (c *ledger) Immediate() {}

// hasIdent reports whether an ident is one of the rule's.
func (c *ledger) hasIdent(ident uint32) bool {
	for i := range c.limits {
		if c.limits[i].ident == ident {
			return true
		}
	}
	return false
}

// Take implements [core.Ledger]. It ignores the context: it waits for nothing.
func (c *ledger) Take(_ context.Context, ask core.Ask) (d core.Decision) {
	h := c.store.hash(ask.Key)
	sh := c.store.shard(h)
	r := request{hash: h, now: c.store.lock(sh), cost: ask.Cost}
	if ask.Override != nil {
		c, r.charge = c.with(ask.Override), ask.Override.Charge
	}
	v, binding, counted := c.take(sh, &r, !ask.Peek)
	// Before the lock is released, which waits until all is written: a copy of d
	// would have to wait as well.
	d.Allowed, d.Source = v.Admitted, core.SourceCounted
	d.Limit = c.limits[binding].Limit
	d.Remaining = v.Remaining
	d.ResetAfter = window.Duration(v.ResetAfter)
	d.RetryAfter = window.Duration(v.RetryAfter)
	d.At = time.UnixMicro(r.now)
	// Afterwards, so that a client that is back keeps the room of its log.
	sh.tick(r.now)
	sh.mu.Unlock()
	if !counted {
		return core.Decision{Err: core.ErrStoreFull}
	}
	return d
}

// request holds the question of a client, and its time.
type request struct {
	hash      hash
	now, cost int64
	charge    bool // count the cost whatever the limits say
}

// with returns c for a request with limits of its own or for a charge, for which the
// limits are Unlimited.
func (c *ledger) with(s *core.Override) *ledger {
	c = &ledger{store: c.store, limits: slices.Clone(c.limits)}
	for i := range c.limits {
		l := &c.limits[i]
		if s.Limits != nil {
			l.Limit = s.Limits[i]
			l.bound.N, l.bound.W = l.Requests, l.Window.Microseconds()
		}
		if s.Charge {
			l.bound.Unlimited = true
		}
	}
	return c
}

// held is the state of a client under a limit: its slot, or if there is
// none what the sketch says.
type held struct {
	slot *slot
	past past
}

// take returns the verdict of the limit that binds, and which one that is. It reports
// false if it should have charged and there is no memory for it: it has charged nothing
// then. sh.mu must be held.
func (c *ledger) take(sh *shard, r *request, charge bool) (v window.Verdict, binding int, counted bool) {
	if len(c.limits) == 1 && charge {
		l := &c.limits[0]
		// The client has a slot, and its log has room: that is nearly every request, and half the work of the general case.
		if s := sh.find(r.hash, l.ident); s != nil && s.number() == l.number {
			if v, words := s.count.Take(l.bound.Limit, r.now, r.cost); words == 0 {
				return l.judged(v, r), 0, true
			}
		}
	}
	var few [8]held
	all := few[:] // by limit
	if len(c.limits) > len(few) {
		all = make([]held, len(c.limits))
	}
	all = all[:len(c.limits)]
	c.lookup(sh, r, all)
	for i := range all {
		one := c.limits[i].decide(&all[i], r)
		if i == 0 || one.Binds(v) {
			v, binding = one, i
		}
	}
	if !charge || !v.Admitted || r.cost == 0 {
		if charge && !v.Admitted {
			sh.noteRefusal(&c.limits[binding], &all[binding], r.cost)
		}
		return v, binding, true
	}
	return v, binding, c.charge(sh, r, all)
}

// noteRefusal counts a refusal by l that the sketch has caused: a cost above the whole
// limit is refused whatever is counted. sh.mu must be held.
func (sh *shard) noteRefusal(l *limit, known *held, cost int64) {
	switch {
	case known.slot != nil, known.past.IsZero(), cost > l.Requests:
	case known.past.known:
		sh.events.refusedEvicted++
	default:
		sh.events.refusedNewcomers++
	}
}

// lookup sets all to what the shard knows of the client under each limit. sh.mu must be
// held.
func (c *ledger) lookup(sh *shard, r *request, all []held) {
	for i := range all {
		l, known := &c.limits[i], &all[i]
		if known.slot = sh.find(r.hash, l.ident); known.slot != nil {
			known.slot.hold(l.number)
		} else {
			known.past = sh.sketch.recall(&l.bound, r.hash, l.ident, r.now)
		}
	}
}

// decide is the verdict of one limit.
func (l *limit) decide(known *held, r *request) window.Verdict {
	if known.slot != nil {
		return l.judged(known.slot.count.Decide(l.bound.Limit, r.now, r.now, r.cost), r)
	}
	return l.judged(known.past.Decide(&l.bound.Bound, r.now, r.cost), r)
}

// judged returns the verdict of a limit on r, given that of its bound.
func (l *limit) judged(v window.Verdict, r *request) window.Verdict {
	if r.charge {
		return window.Limit{N: l.Requests}.Charged(v)
	}
	return v
}

// Reset implements [core.Ledger]. What the sketch holds of the client cannot be
// taken out, since others may depend on it: a slot that counts nothing hides it.
// So the Reset of a client that was evicted before holds for as long as the
// client keeps that slot. It is evicted after all slots that have used less than
// their whole limit; then the client has again what it had counted before. It
// ignores the context: it waits for nothing, and a fallback is reset when Redis has
// used up the time.
func (c *ledger) Reset(_ context.Context, key string) error {
	h := c.store.hash(key)
	sh := c.store.shard(h)
	r := request{hash: h, now: c.store.lock(sh)}
	defer sh.mu.Unlock()
	full := false
	for i := range c.limits {
		l := &c.limits[i]
		if s := sh.find(h, l.ident); s != nil {
			sh.forget(sh.number(s))
		}
		p := sh.sketch.recall(&l.bound, h, l.ident, r.now)
		switch {
		case p.IsZero():
		case sh.makeRoom(c, &r, need{slots: 1}):
			sh.insert(h, l.ident, l.number).mark(hides | forgiven)
		default:
			full = true
		}
	}
	if full {
		return core.ErrStoreFull
	}
	return nil
}

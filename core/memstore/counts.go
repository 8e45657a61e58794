package memstore

import (
	"context"
	"errors"
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
	bound         bound
	allowance     int64  // of the rule; see [window.Allowance]
	ident, number uint32 // of its counts and of its bound
}

// Immediate implements [core.Immediate].
func (c *counts) Immediate() {}

// counts reports whether an ident is one of the rule's.
func (c *counts) counts(ident uint32) bool {
	for i := range c.limits {
		if c.limits[i].ident == ident {
			return true
		}
	}
	return false
}

// Take implements [core.Counts]. It ignores the context: it waits for nothing.
func (c *counts) Take(_ context.Context, ask core.Ask) (d core.Decision, err error) {
	h := c.store.hash(ask.Key)
	sh := c.store.shard(h)
	r := request{hash: h, now: c.store.lock(sh), cost: ask.Cost}
	v, binding, at, counted := c.take(sh, &r, !ask.Peek)
	// Before the lock is released, which waits until all is written: a copy of d
	// would have to wait as well.
	d.Allowed, d.Source = v.Admitted, core.Counted
	d.Limit = c.limits[binding].Limit
	d.Remaining = v.Remaining
	d.ResetAfter = window.Duration(v.ResetAfter)
	d.RetryAfter = window.Duration(v.RetryAfter)
	d.At = time.UnixMicro(at)
	// Afterwards, so that a client that is back keeps the room of its log.
	if sh.asked++; sh.asked%sweepEvery == 0 {
		sh.sweep(r.now)
	}
	sh.mu.Unlock()
	if !counted {
		return core.Decision{}, core.ErrStoreFull
	}
	return d, nil
}

// request is what a client asks for, and when. It is counted at stamp: the newest
// of now and what is counted already. What a sketch knows is dated latest at the
// latest: now, or by how much a clock has stepped back a little later.
type request struct {
	hash             hash
	now, stamp, cost int64
	latest           int64
}

// held is what a shard knows of a client under a limit: its slot, or if there is
// none what the sketch says.
type held struct {
	slot *slot
	past past
}

// take returns the verdict of the limit that binds, which one that is, and the
// time of the decision. It reports false if it should have charged and there is
// no memory for it: it has charged nothing then. sh.mu must be held.
func (c *counts) take(sh *shard, r *request, charge bool) (v window.Verdict, binding int, at int64, counted bool) {
	if len(c.limits) == 1 && charge {
		if v, stamp, done := c.limits[0].take(sh, r); done {
			return v, 0, stamp, true
		}
	}
	var few [8]held
	all := few[:] // by limit
	if len(c.limits) > len(few) {
		all = make([]held, len(c.limits))
	}
	all = all[:len(c.limits)]
	r.stamp, r.latest = r.now, min(sh.now, r.now+c.limits[0].allowance)
	for i := range all {
		l, known := &c.limits[i], &all[i]
		if known.slot = sh.find(r.hash, l.ident); known.slot != nil {
			known.slot.bound = l.number
			if known.slot.begun(&l.bound)-r.now > l.allowance {
				known.slot = known.slot.rewound(&l.bound, r.now, charge && r.cost > 0)
			}
			r.stamp = max(r.stamp, known.slot.begun(&l.bound))
		} else if sh.sketch != nil {
			known.past = sh.sketch.recall(&l.bound, r.hash, l.ident, r.now)
			r.stamp = max(r.stamp, known.past.begun(&l.bound, r))
		}
	}
	for i := range all {
		one := c.limits[i].decide(&all[i], r)
		if i == 0 || one.Binds(v) {
			v, binding = one, i
		}
	}
	if !charge || !v.Admitted || r.cost == 0 {
		return v, binding, r.now, true
	}
	return v, binding, r.stamp, c.charge(sh, r, all)
}

// take decides and charges where a limit is alone and nothing else is to be done:
// the client has a slot, and its log has room. That is nearly every request, and
// half the work of the general case.
func (l *limit) take(sh *shard, r *request) (v window.Verdict, stamp int64, done bool) {
	s, now, cost := sh.find(r.hash, l.ident), r.now, r.cost
	if s == nil || s.bound != l.number {
		return v, now, false
	}
	if stamp = max(now, s.begun(&l.bound)); stamp-now > l.allowance {
		return v, now, false
	}
	v = s.decide(&l.bound, now, stamp, cost)
	if !v.Admitted || cost == 0 {
		return v, now, true
	}
	if l.bound.isLog {
		s.log.Expire(now - l.bound.W)
		if !s.log.Fits(cost) {
			return v, now, false
		}
	}
	s.count(&l.bound, stamp, cost)
	return v, stamp, true
}

// decide is the verdict of one limit.
func (l *limit) decide(known *held, r *request) window.Verdict {
	if known.slot != nil {
		return known.slot.decide(&l.bound, r.now, r.stamp, r.cost)
	}
	return known.past.decide(&l.bound, r)
}

// Reset implements [core.Counts]. What the sketch holds of the client cannot be
// taken out, since others may depend on it: a slot that counts nothing hides it.
// So the Reset of a client that was evicted before holds for as long as the
// client keeps that slot. It is evicted after all slots that have used less than
// their whole limit; then the client has again what it had counted before.
func (c *counts) Reset(ctx context.Context, key string) error {
	// A reset takes no time, so it is done even if another store has used the
	// limiter's up: a fallback is reset when Redis does not answer.
	if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), core.ErrTimeout) {
		return err
	}
	h := c.store.hash(key)
	sh := c.store.shard(h)
	r := request{hash: h, now: c.store.lock(sh)}
	defer sh.mu.Unlock()
	full := false
	for i := range c.limits {
		l := &c.limits[i]
		if sh.find(h, l.ident) != nil {
			p, _ := sh.place(h, l.ident)
			sh.forget(sh.named(p))
		}
		p := sh.sketch.recall(&l.bound, h, l.ident, r.now)
		switch {
		case p.none():
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

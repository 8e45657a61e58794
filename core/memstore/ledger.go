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
	info              limitInfo
	ident, infoNumber uint32 // the numbers of its ident and of info
}

// Immediate implements [core.Immediate].
func (c *ledger) Immediate() {}

// hasIdent reports whether the rule has an ident.
func (c *ledger) hasIdent(ident uint32) bool {
	return slices.ContainsFunc(c.limits, func(l limit) bool { return l.ident == ident })
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
	// d is written before the unlock, which waits for all writes: a copy of d would
	// wait for them a second time.
	d.Allowed, d.Source = v.Admitted, core.SourceCounted
	d.Limit = c.limits[binding].Limit
	d.Remaining = v.Remaining
	d.ResetAfter = window.Duration(v.ResetAfter)
	d.RetryAfter = window.Duration(v.RetryAfter)
	d.At = time.UnixMicro(r.now)
	// A sweep comes last, so that the client's log keeps its memory.
	sh.tick(r.now)
	sh.mu.Unlock()
	if !counted {
		return core.Decision{Err: core.ErrStoreFull}
	}
	return d
}

// request is a request of a client, and the time of it.
type request struct {
	hash      hash
	now, cost int64
	charge    bool // the cost is counted whatever the limits say
}

// with returns c for a request with limits of its own, or for a charge, whose limits
// are Unlimited.
func (c *ledger) with(s *core.Override) *ledger {
	c = &ledger{store: c.store, limits: slices.Clone(c.limits)}
	for i := range c.limits {
		l := &c.limits[i]
		if s.Limits != nil {
			l.Limit = s.Limits[i]
			l.info.N, l.info.W = l.Requests, l.Window.Microseconds()
		}
		if s.Charge {
			l.info.Unlimited = true
		}
	}
	return c
}

// clientState is the state of a client under a limit: its slot, or without one the
// estimate of the sketch.
type clientState struct {
	slot     *slot
	estimate estimate
}

// take returns the binding limit's verdict and index. An admitted request is
// counted if commit is true. counted is false if there is no memory for that: then
// nothing is counted. sh.mu must be held.
func (c *ledger) take(sh *shard, r *request, commit bool) (v window.Verdict, binding int, counted bool) {
	if len(c.limits) == 1 && commit {
		l := &c.limits[0]
		// Nearly every client has a slot, and room in its log: half the work of the general case.
		if s := sh.find(r.hash, l.ident); s != nil && s.infoNumber() == l.infoNumber {
			if v, words := s.count.Take(l.info.Limit, r.now, r.cost); words == 0 {
				return l.verdict(v, r), 0, true
			}
		}
	}
	var few [8]clientState
	all := few[:] // by limit
	if len(c.limits) > len(few) {
		all = make([]clientState, len(c.limits))
	}
	all = all[:len(c.limits)]
	c.lookup(sh, r, all)
	for i := range all {
		one := c.limits[i].decide(&all[i], r)
		if i == 0 || one.Binds(v) {
			v, binding = one, i
		}
	}
	if !commit || !v.Admitted || r.cost == 0 {
		if commit && !v.Admitted {
			sh.noteRefusal(&c.limits[binding], &all[binding], r.cost)
		}
		return v, binding, true
	}
	return v, binding, c.count(sh, r, all)
}

// noteRefusal counts a refusal by l that the sketch has caused. A cost above the whole
// limit is refused without it. sh.mu must be held.
func (sh *shard) noteRefusal(l *limit, client *clientState, cost int64) {
	switch {
	case client.slot != nil, client.estimate.IsZero(), cost > l.Requests:
	case client.estimate.found:
		sh.events.refusedEvicted++
	default:
		sh.events.refusedNewKeys++
	}
}

// lookup sets all to the state of the client under each limit. sh.mu must be held.
func (c *ledger) lookup(sh *shard, r *request, all []clientState) {
	for i := range all {
		l, client := &c.limits[i], &all[i]
		if client.slot = sh.find(r.hash, l.ident); client.slot != nil {
			client.slot.setInfo(l.infoNumber)
		} else {
			client.estimate = sh.sketch.estimate(&l.info, r.hash, l.ident, r.now)
		}
	}
}

// decide returns the verdict of one limit.
func (l *limit) decide(client *clientState, r *request) window.Verdict {
	if client.slot != nil {
		return l.verdict(client.slot.count.Decide(l.info.Limit, r.now, r.now, r.cost), r)
	}
	return l.verdict(client.estimate.Decide(&l.info.Bound, r.now, r.cost), r)
}

// verdict returns the verdict of a limit on r, given that of its info.
func (l *limit) verdict(v window.Verdict, r *request) window.Verdict {
	if r.charge {
		return window.Limit{N: l.Requests}.Charged(v)
	}
	return v
}

// Reset implements [core.Ledger]. The sketch's units of the client cannot be
// removed, since other clients may depend on them: an empty slot overrides them.
// So the Reset of an evicted client holds for as long as the client keeps this
// slot: it is evicted only if no slot of the sample has used less than its whole
// limit. Then the client has its earlier units again. Reset ignores the context,
// which may have ended, since it waits for nothing.
func (c *ledger) Reset(_ context.Context, key string) (err error) {
	h := c.store.hash(key)
	sh := c.store.shard(h)
	r := request{hash: h, now: c.store.lock(sh)}
	defer sh.mu.Unlock()
	for i := range c.limits {
		l := &c.limits[i]
		if s := sh.find(h, l.ident); s != nil {
			sh.forget(sh.number(s))
		}
		switch {
		case sh.sketch.estimate(&l.info, h, l.ident, r.now).IsZero():
		case sh.makeRoom(c, &r, need{slots: 1}):
			sh.insert(h, l.ident, l.infoNumber).mark(overrides | wasReset)
		default:
			err = core.ErrStoreFull
		}
	}
	return err
}

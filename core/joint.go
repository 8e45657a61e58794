package core

import (
	"context"
	"slices"
	"time"
)

// Joint is implemented by Counts that can decide requests by several rules in one step, as
// redisstore does on a single server; see [Together].
type Joint interface {
	// TakeJointly decides each of asks by the Counts of the same index, of which the
	// receiver is the first. It does so as Take does, but counts all requests or none.
	// The decisions are what Take would have returned for each alone, except that nothing
	// is counted where one refuses: then the others may have nothing but Allowed set.
	//
	// It returns nil and no error if it cannot do that in one step, as for Counts of
	// another store. Then nothing was asked.
	TakeJointly(ctx context.Context, counts []Counts, asks []Ask) ([]Decision, error)
}

// jointly is Together in one step. It reports false, and has done nothing, if that cannot
// be. The pairs must have been checked.
func jointly(ctx context.Context, pairs []Pair) (d Decision, binding int, done bool) {
	joint, ok := pairs[0].Limiter.counts.(Joint)
	if !ok || len(pairs) == 1 {
		return d, 0, false
	}
	pairs = slices.Clone(pairs)
	counts, asks := make([]Counts, len(pairs)), make([]Ask, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		if !p.prepare(ctx) {
			return d, 0, false
		}
		counts[i], asks[i] = p.Limiter.counts, p.Request.ask(p.Limiter.firstTimeout)
	}
	start := time.Now()
	decisions, err := joint.TakeJointly(ctx, counts, asks)
	if err != nil {
		decisions = make([]Decision, len(pairs))
	} else if decisions == nil {
		return d, 0, false
	}
	var all combined
	for i := range pairs {
		r := pairs[i].decided(ctx, decisions[i], err)
		if !all.add(r) {
			if err != nil { // fallbacks have counted
				giveBackAll(ctx, all.reserved)
			}
			r.limiter.report(ctx, &r.request, &r.Decision, time.Since(start))
			return r.Decision, i, true
		}
	}
	for _, r := range all.reserved {
		r.limiter.report(ctx, &r.request, &r.Decision, time.Since(start))
	}
	d, binding = all.result()
	return d, binding, true
}

// prepare does what a limiter does before it asks the store. It reports false if the
// pairs are to be asked one by one, which tells what is wrong with a request and looks at
// the fallback.
func (p *Pair) prepare(ctx context.Context) bool {
	l, r := p.Limiter, &p.Request
	if !l.begun.Load() {
		l.begin(ctx)
	}
	if r.check(ctx, l) != nil {
		return false
	}
	return true
}

// decided returns the decision of the store, or that of the policy if the store has failed
// with err.
func (p *Pair) decided(ctx context.Context, d Decision, err error) *Reservation {
	l := p.Limiter
	if err == nil {
		d.byStore()
		return newReservation(l, p.Request, d)
	}
	return newReservation(l, p.Request, l.onStoreError(ctx, &p.Request, err))
}

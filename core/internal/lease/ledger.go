package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
)

// Wrap returns a ledger that leases from next, for a rule with these limits. It returns next itself if the rule allows
// no leases.
func (t *Table) Wrap(next core.Ledger, limits []core.Limit) core.Ledger {
	if terms, ok := t.terms.For(limits); ok {
		return &ledger{t, terms, next}
	}
	return next
}

// ledger decides requests under one rule from leases. Usage is the next ledger's, which counts unspent units as used.
type ledger struct {
	table       *Table
	terms       Terms
	core.Ledger // the next ledger
}

// request is a request that a lease may answer.
type request struct {
	core.Ask
	holder   holder
	shard    *shard
	now      time.Time     // time of the last step
	refused  bool          // the client was refused at now
	start    time.Time     // start of the wait, or zero
	deadline time.Time     // end of the wait, set with start
	maxWait  time.Duration // longest wait from start for renewals by other callers
}

// Take implements [core.Ledger]. A request beyond the client's lease waits for a renewal. It goes to the next ledger if
// a lease does not pay or the renewal takes too long.
func (l *ledger) Take(ctx context.Context, ask core.Ask) (d core.Decision) {
	if ask.Override != nil {
		return l.Ledger.Take(ctx, ask)
	}
	q := request{Ask: ask}
	q.holder, q.shard = l.holder(ask.Key)
	for delayed := false; ; delayed = true {
		r, own, spent := l.step(ctx, &q, &d, delayed)
		switch {
		case spent:
			return d
		case r == nil:
			return l.takeDirect(ctx, &q, delayed)
		case own:
			return l.awaitOwn(ctx, &q, r)
		}
		leased, err := l.await(ctx, r, q.start.Add(q.maxWait))
		if err != nil {
			return core.Decision{Err: core.AtStage(core.StageLease, err)}
		}
		if !leased { // the next ledger may have cached the refusal of the renewal's caller
			return l.takeDirect(ctx, &q, true)
		}
		q.maxWait = min(q.maxWait, nextRenewTimeout)
	}
}

// step takes the next step of q. If spent is true, d is the answer. Otherwise r is the renewal to wait for, which q
// started itself if own is true. If r is nil, q goes to the next ledger. A delayed request does not wait for long.
func (l *ledger) step(ctx context.Context, q *request, d *core.Decision, delayed bool) (r *renewal, own, spent bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.now = l.table.now() // under the lock, so that time never runs back within a lease
	e := q.shard.byHolder[q.holder]
	if e != nil && e.canUse(q.now, q.Cost) {
		*d = e.use(q.now, q.Cost, q.Peek, l.terms.Lifetime)
		return nil, false, true
	}
	q.refused = e != nil && q.now.Before(e.retry)
	if q.refused || !l.canLease(q) {
		return nil, false, false
	}
	if e == nil {
		if e = q.shard.add(q.holder, q.now); e == nil {
			return nil, false, false
		}
	}
	if q.start.IsZero() {
		q.startWait()
	}
	if e.renewal == nil {
		return l.startRenewal(ctx, q, e), true, false
	}
	if !delayed && !e.renewal.reserve(q) {
		return nil, false, false
	}
	return e.renewal, false, false
}

// canLease reports whether a lease may answer a request like q.
func (l *ledger) canLease(q *request) bool { return q.Cost > 0 && q.Cost <= l.terms.Size && !q.Peek }

// takeDirect passes q to the next ledger and records the answer. A delayed request has the rest of its timeout.
func (l *ledger) takeDirect(ctx context.Context, q *request, delayed bool) core.Decision {
	sent, late := q.now, false
	if delayed {
		sent, late = l.table.now(), q.updateTimeout()
	}
	d := l.Ledger.Take(ctx, q.Ask)
	if l.canLease(q) && !(q.refused && d.Source == core.SourceCached) { // a repeated refusal is no news
		a := answer{sent: sent, received: l.table.now(), units: q.Cost, reply: d}
		q.shard.mu.Lock()
		if e := q.shard.byHolder[q.holder]; e != nil {
			e.record(a, l.terms.Lifetime)
		}
		q.shard.mu.Unlock()
	}
	if d.Err != nil && late { // the wait used up the time
		d.Err = core.AtStage(core.StageLease, d.Err)
	}
	return d
}

// waitError returns the error of a caller whose context ends at the given stage.
func waitError(ctx context.Context, stage core.Stage) error {
	return core.AtStage(stage, fmt.Errorf("sash: waiting for a lease: %w", context.Cause(ctx)))
}

// Return implements [core.Ledger]. A unit of a lease goes back to the lease, and stays spent if the lease is over. A
// unit counted by the next ledger goes back to that ledger: a lease could spend it for longer than it counts.
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	if back.Source != core.SourceLeased {
		return l.Ledger.Return(ctx, back)
	}
	holder, shard := l.holder(back.Key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.byHolder[holder]
	another := e == nil || !back.At.After(e.after) || !back.At.Before(e.reply.At)
	if another || !e.isValid(l.table.now()) {
		return 0, nil
	}
	e.left += back.Units
	return back.Units, nil
}

// Reset implements [core.Ledger]. It ends the client's leases under all rules, which may share the counts.
func (l *ledger) Reset(ctx context.Context, client string) error {
	err := l.Ledger.Reset(ctx, client)
	holder, shard := l.holder(client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for other := range shard.byHolder {
		if other.client == holder.client {
			delete(shard.byHolder, other)
		}
	}
	return err
}

package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
)

// Wrap returns next with leases in front of it, for a rule with these limits; or next itself, if the rule allows no
// leases.
func (t *Table) Wrap(next core.Ledger, limits []core.Limit) core.Ledger {
	if terms, ok := t.terms.For(limits); ok {
		return &ledger{t, terms, next}
	}
	return next
}

// ledger is the link that decides by one rule, with leases. Usage is the next link's: that has counted what is left of
// a lease, so it is used.
type ledger struct {
	table       *Table
	terms       Terms
	core.Ledger // the next link
}

// request is a request that a lease may answer.
type request struct {
	core.Ask
	holder   holder
	shard    *shard
	now      time.Time     // when the shard was last looked at
	refused  bool          // the client was known to be refused then
	began    time.Time     // when the request began to wait; the zero time if it does not
	deadline time.Time     // until when; the zero time is none
	patience time.Duration // how long it waits for renewals by other callers, from its begin
}

// Take implements [core.Ledger]. A request that the client's lease cannot answer waits until that is renewed, or is
// asked alone where a lease does not pay or takes too long.
func (l *ledger) Take(ctx context.Context, ask core.Ask) (d core.Decision) {
	if ask.Override != nil {
		return l.Ledger.Take(ctx, ask)
	}
	q := request{Ask: ask}
	q.holder, q.shard = l.holder(ask.Key)
	for waited := false; ; waited = true {
		r, own, spent := l.step(ctx, &q, &d, waited)
		switch {
		case spent:
			return d
		case r == nil:
			return l.alone(ctx, &q, waited)
		case own:
			return l.awaitOwn(ctx, &q, r)
		}
		granted, err := l.await(ctx, r, q.began.Add(q.patience))
		if err != nil {
			return core.Decision{Err: core.AtStage(core.StageLease, err)}
		}
		if !granted { // what the renewal's caller was told may be the answer (TestNothingLeft)
			return l.alone(ctx, &q, true)
		}
		q.patience = min(q.patience, nextPatience)
	}
}

// step takes the next step of q. If spent is true, d is the answer. Else r is the renewal to wait for, which q has
// started itself if own is true; without one q is to be asked alone. A request that has waited before has no time
// left to wait for long (TestSecondRenewal).
func (l *ledger) step(ctx context.Context, q *request, d *core.Decision, waited bool) (r *renewal, own, spent bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.now = l.table.now() // under the lock: time must not run back within a lease (TestClock)
	e := q.shard.byHolder[q.holder]
	if e != nil && e.has(q.now, q.Cost) {
		*d = e.spend(q.now, q.Cost, q.Peek, l.terms.Lifetime)
		return nil, false, true
	}
	q.refused = e != nil && q.now.Before(e.retry)
	if q.refused || !l.leases(q) {
		return nil, false, false
	}
	if e == nil {
		if e = q.shard.add(q.holder, q.now); e == nil {
			return nil, false, false
		}
	}
	if q.began.IsZero() {
		q.begin(ctx)
	}
	if e.renewal == nil {
		return l.startRenewal(ctx, q, e), true, false
	}
	if !waited && !e.renewal.reserve(q) {
		return nil, false, false
	}
	return e.renewal, false, false
}

// leases reports whether a lease may answer a request like q (TestNotLeased).
func (l *ledger) leases(q *request) bool { return q.Cost > 0 && q.Cost <= l.terms.Size && !q.Peek }

// alone has the next link decide q by itself, and learns from the answer what the client asks for. A request that has
// waited for renewals has only the time that is left.
func (l *ledger) alone(ctx context.Context, q *request, waited bool) core.Decision {
	sent, late := q.now, false
	if waited {
		sent, late = l.table.now(), q.elapse()
	}
	d := l.Ledger.Take(ctx, q.Ask)
	if l.leases(q) && !(q.refused && d.Source == core.SourceCached) { // that tells nothing more about the client
		a := answer{sent: sent, received: l.table.now(), units: q.Cost, reply: d}
		q.shard.mu.Lock()
		if e := q.shard.byHolder[q.holder]; e != nil {
			e.learn(a, l.terms.Lifetime)
		}
		q.shard.mu.Unlock()
	}
	if d.Err != nil && late { // because of the wait
		d.Err = core.AtStage(core.StageLease, d.Err)
	}
	return d
}

// left returns the error of a caller that leaves at a stage, since its context has ended.
func left(ctx context.Context, stage core.Stage) error {
	return core.AtStage(stage, fmt.Errorf("sash: waiting for a lease: %w", context.Cause(ctx)))
}

// Return implements [core.Ledger]. A unit of a lease goes back to the lease, and stays spent if that is over. A unit
// that the next link has counted goes back there: in a lease it would be spent for longer than it counts
// (TestReturnHistories).
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	if back.Source != core.SourceLeased {
		return l.Ledger.Return(ctx, back)
	}
	holder, shard := l.holder(back.Key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.byHolder[holder]
	if e == nil || !back.At.After(e.after) || !back.At.Before(e.reply.At) { // another lease has given it
		return 0, nil
	}
	if !e.lasts(l.table.now()) {
		return 0, nil
	}
	e.left += back.Units
	return back.Units, nil
}

// Reset implements [core.Ledger]. Leases of the client under other rules end too: they may be on the same counts. If
// ctx has ended already, nothing is done.
func (l *ledger) Reset(ctx context.Context, client string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
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

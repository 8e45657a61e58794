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

// ledger is the link that decides by one rule, with leases.
type ledger struct {
	table *Table
	terms Terms
	next  core.Ledger
}

// request is a request that a lease may answer.
type request struct {
	core.Ask
	holder   holder
	shard    *shard
	began    time.Time     // when the request began to wait
	deadline time.Time     // until when; the zero time is none
	patience time.Duration // how long it waits for renewals by other callers, from its begin
}

// Take implements [core.Ledger].
func (l *ledger) Take(ctx context.Context, ask core.Ask) (d core.Decision, err error) {
	if ask.Override != nil {
		return l.next.Take(ctx, ask)
	}
	q := request{Ask: ask}
	q.holder, q.shard = l.holder(ask.Key)
	now, spent, refused := l.spend(&q, &d)
	switch {
	case spent:
		return d, nil
	case ask.Cost > l.terms.Size || ask.Cost == 0 || ask.Peek: // no renewal would help (TestNotLeased)
		return l.next.Take(ctx, ask)
	case !refused:
		return l.fromLease(ctx, &q)
	}
	d, err = l.next.Take(ctx, ask)
	if d.Source != core.SourceRemembered { // else it tells nothing more about the client
		l.learn(&q, now, &d, err)
	}
	return d, err
}

// spend sets d to the answer from the client's lease, and reports whether that has enough, and whether the client is
// known to be refused.
func (l *ledger) spend(q *request, d *core.Decision) (now time.Time, spent, refused bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	now = l.table.now() // under the lock: time must not run back within a lease (TestClock)
	e := q.shard.byHolder[q.holder]
	switch {
	case e == nil:
		return now, false, false
	case e.has(now, q.Cost):
		*d = e.spend(now, q.Cost, q.Peek, l.terms.Lifetime)
		return now, true, false
	}
	return now, false, now.Before(e.retry)
}

// fromLease answers q from the client's lease, which is renewed if need be; or alone where a lease does not pay or
// takes too long.
func (l *ledger) fromLease(ctx context.Context, q *request) (core.Decision, error) {
	q.begin(time.Now())
	q.patience = q.mostPatience(ctx)
	for waited := false; ; waited = true {
		next := l.step(ctx, q, waited)
		switch {
		case next.spent:
			return next.decision, nil
		case next.renewal == nil:
			return l.aloneAfter(ctx, q, waited)
		case next.own:
			return l.awaitOwn(ctx, q, next.renewal)
		}
		granted, err := l.await(ctx, next.renewal, q.began.Add(q.patience))
		if err != nil {
			return core.Decision{}, core.AtStage(core.StageLease, err)
		}
		if !granted { // what the renewal's caller was told may be the answer (TestNothingLeft)
			return l.aloneAfter(ctx, q, true)
		}
		q.patience = min(q.patience, nextPatience)
	}
}

// aloneAfter is alone for a request that may have waited for renewals. The next link gets the time that is left.
func (l *ledger) aloneAfter(ctx context.Context, q *request, waited bool) (core.Decision, error) {
	late := waited && q.elapse()
	d, err := l.alone(ctx, q, l.table.now())
	if err != nil && late { // because of the wait
		err = core.AtStage(core.StageLease, err)
	}
	return d, err
}

// step is what a request does next: it is answered, or waits for a renewal, or is asked alone.
type step struct {
	spent    bool // decision is the answer
	decision core.Decision
	renewal  *renewal // to wait for, or nil
	own      bool     // the request has started the renewal
}

// step returns what q does next. A request that has waited before has no time left to wait for long
// (TestSecondRenewal).
func (l *ledger) step(ctx context.Context, q *request, waited bool) step {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	now := l.table.now()
	e := q.shard.byHolder[q.holder]
	if e != nil && e.has(now, q.Cost) {
		return step{spent: true, decision: e.spend(now, q.Cost, false, l.terms.Lifetime)}
	}
	if e == nil {
		e = q.shard.add(q.holder, now)
	}
	switch {
	case e == nil || now.Before(e.retry):
		return step{}
	case e.renewal == nil:
		return step{renewal: l.startRenewal(ctx, q, e, now), own: true}
	case !waited && !e.renewal.reserve(q):
		return step{}
	}
	return step{renewal: e.renewal}
}

// alone has the next link decide q by itself, now.
func (l *ledger) alone(ctx context.Context, q *request, now time.Time) (core.Decision, error) {
	d, err := l.next.Take(ctx, q.Ask)
	l.learn(q, now, &d, err)
	return d, err
}

// learn learns what the client asks for from the next link's answer to q, which was sent at a time.
func (l *ledger) learn(q *request, sent time.Time, d *core.Decision, err error) {
	a := answer{sent: sent, received: l.table.now(), units: q.Cost, reply: *d, err: err}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if e := q.shard.byHolder[q.holder]; e != nil {
		e.learn(a, l.terms.Lifetime)
	}
}

// left returns the error of a caller that leaves at a stage, since its context has ended.
func left(ctx context.Context, stage core.Stage) error {
	return core.AtStage(stage, fmt.Errorf("sash: waiting for a lease: %w", context.Cause(ctx)))
}

// Usage implements [core.Ledger]. What is left of a lease is used: the next link has counted it.
func (l *ledger) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	return l.next.Usage(ctx, key)
}

// Return implements [core.Ledger]. A unit of a lease goes back to the lease, and stays spent if that is over. A unit
// that the next link has counted goes back there: in a lease it would be spent for longer than it counts
// (TestReturnHistories).
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	if back.Source != core.SourceLeased {
		return l.next.Return(ctx, back)
	}
	holder, shard := l.holder(back.Key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.byHolder[holder]
	if e == nil || !back.At.After(e.after) || !back.At.Before(e.reply.At) { // another lease has given it
		return 0, nil
	}
	e.left += back.Units
	if !e.has(l.table.now(), back.Units) {
		e.left -= back.Units
		return 0, nil
	}
	return back.Units, nil
}

// Reset implements [core.Ledger]. Leases of the client under other rules end too: they may be on the same counts. If
// ctx has ended already, nothing is done.
func (l *ledger) Reset(ctx context.Context, client string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := l.next.Reset(ctx, client)
	holder, shard := l.holder(client)
	shard.end(holder.client)
	return err
}

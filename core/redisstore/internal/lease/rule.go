package lease

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/ask"
)

// Store is what is asked where no lease answers: the links behind this one.
type Store interface {
	// Remembered returns the refusal of a request that is remembered, if there is one. Once in a while, for one
	// caller, it reports mustAsk instead: that caller is to ask whether the refusal still holds.
	Remembered(a core.Ask) (d core.Decision, found, mustAsk bool)

	// Take has the store decide a request, whatever is remembered. It returns at the request's deadline or when ctx
	// ends.
	Take(ctx context.Context, q ask.Request) (core.Decision, error)

	// TakeAhead is Take with the units counted at the end of a lease that begins now. A refusal says how much
	// remains.
	TakeAhead(ctx context.Context, q ask.Request) (core.Decision, error)

	// Usage returns what is counted for key, leases included.
	Usage(ctx context.Context, key string) ([]core.Use, error)

	// Return takes back what the store has counted for a request.
	Return(ctx context.Context, back core.Back) (int64, error)

	// Reset forgets what is counted for key, and what is remembered of it.
	Reset(ctx context.Context, key string) error

	// Now reads the clock of this process.
	Now() time.Time
}

// Rule decides by one rule, with leases. It is safe for concurrent use.
type Rule struct {
	table *Table
	terms Terms
	store Store
}

var _ core.Counts = (*Rule)(nil)

// Rule returns a rule with leases on these terms, taken from the store.
func (t *Table) Rule(terms Terms, store Store) *Rule {
	return &Rule{table: t, terms: terms, store: store}
}

// request is a request that a lease may answer.
type request struct {
	ask.Request
	holder   holder
	shard    *shard
	patience time.Duration // how long it waits for renewals by other callers, from its begin
}

// Take implements [core.Counts].
func (l *Rule) Take(ctx context.Context, a core.Ask) (core.Decision, error) {
	holder, shard := l.holder(a.Key)
	if a.Special == nil {
		if d, ok := l.spend(shard, holder, a.Cost, a.Peek); ok {
			return d, nil
		}
	}
	d, found, mustAsk := l.store.Remembered(a)
	if found {
		return d, nil
	}
	q := request{Request: ask.Begin(a), holder: holder, shard: shard}
	switch {
	case a.Cost > l.terms.Size || a.Cost == 0 || a.Peek || a.Special != nil: // no renewal would help (TestNotLeased)
		return l.store.Take(ctx, q.Request)
	case mustAsk: // a lease would not tell whether the refusal still holds (TestAfterRefusal)
		return l.alone(ctx, q)
	}
	return l.fromLease(ctx, q)
}

// spend answers a request from the client's lease, if that has enough.
func (l *Rule) spend(shard *shard, holder holder, cost int64, peek bool) (core.Decision, bool) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := l.store.Now() // under the lock: time must not run back within a lease (TestClock)
	if e := shard.byHolder[holder]; e != nil && e.has(now, cost) {
		return e.spend(now, cost, peek, l.terms.Lifetime), true
	}
	return core.Decision{}, false
}

// fromLease answers q from the client's lease, which is renewed if need be; or alone where a lease does not pay or
// takes too long.
func (l *Rule) fromLease(ctx context.Context, q request) (core.Decision, error) {
	q.patience = q.mostPatience(ctx)
	for waited := false; ; waited = true {
		next := l.next(ctx, &q, waited)
		switch {
		case next.spent:
			return next.decision, nil
		case next.renewal == nil:
			return l.alone(ctx, q)
		case next.own:
			return l.awaitOwn(ctx, q, next.renewal)
		}
		granted, err := l.await(ctx, next.renewal, q.Began.Add(q.patience))
		if err != nil {
			return core.Decision{}, core.AtStage(core.StageLease, err)
		}
		if !granted { // what the renewal's caller was told may be the answer (TestNothingLeft)
			d, found, _ := l.store.Remembered(q.Ask)
			if found {
				return d, nil
			}
			late := q.late()
			if d, err = l.alone(ctx, q); err != nil && late { // because of the wait
				err = core.AtStage(core.StageLease, err)
			}
			return d, err
		}
		q.patience = min(q.patience, nextPatience)
	}
}

// step is what a request does next: it is answered, or waits for a renewal, or is asked alone.
type step struct {
	spent    bool // decision is the answer
	decision core.Decision
	renewal  *renewal // to wait for, or nil
	own      bool     // the request has started the renewal
}

// next returns what q does next. A request that has waited before has no time left to wait for long
// (TestSecondRenewal).
func (l *Rule) next(ctx context.Context, q *request, waited bool) step {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	now := l.store.Now()
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

// alone asks for one request, and learns from the answer what the client asks for.
func (l *Rule) alone(ctx context.Context, q request) (core.Decision, error) {
	q.Began = l.store.Now()
	d, err := l.store.Take(ctx, q.Request)
	a := answer{sent: q.Began, received: l.store.Now(), units: q.Cost, reply: d, err: err}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if e := q.shard.byHolder[q.holder]; e != nil {
		e.learn(a, l.terms.Lifetime)
	}
	return d, err
}

// Usage implements [core.Counts]. What is left of a lease is used: the store has counted it.
func (l *Rule) Usage(ctx context.Context, key string) ([]core.Use, error) {
	return l.store.Usage(ctx, key)
}

// Return implements [core.Counts]. A unit of a lease goes back to the lease, and stays spent if that is over. A unit
// that the store has counted goes back to the store: in a lease it would be spent for longer than it counts
// (TestReturnHistories).
func (l *Rule) Return(ctx context.Context, back core.Back) (int64, error) {
	if back.Source != core.Leased {
		return l.store.Return(ctx, back)
	}
	holder, shard := l.holder(back.Key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.byHolder[holder]
	if e == nil || !back.At.After(e.after) || !back.At.Before(e.reply.At) { // another lease has given it
		return 0, nil
	}
	e.left += back.Units
	if !e.has(l.store.Now(), back.Units) {
		e.left -= back.Units
		return 0, nil
	}
	return back.Units, nil
}

// Reset implements [core.Counts]. Leases of the client under other rules end too: they may be on the same counts. If
// ctx has ended already, nothing is done.
func (l *Rule) Reset(ctx context.Context, client string) error {
	if ctx.Err() != nil {
		return l.table.left(ctx)
	}
	err := l.store.Reset(ctx, client)
	holder, shard := l.holder(client)
	shard.end(holder.client)
	return err
}

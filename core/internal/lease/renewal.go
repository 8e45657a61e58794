package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// renewal is a request for a lease in flight. Other requests of the client wait for it instead of going to the store.
// It has its own context: if the caller that started it leaves, the others use the lease.
type renewal struct {
	request           // request of the caller that started it, with the renewal's own deadline
	lease   *lease    // the entry to renew
	lostAt  time.Time // time after which the reply counts as lost
	free    int64     // units not set aside by reserve

	// settled is set once: by the caller that started it when it leaves, or by finish when it answers.
	settled atomic.Bool

	done   chan struct{} // closed at the end of the renewal; the fields below are final then
	leased bool
	first  core.Decision // answer to the caller that started it; its Err goes to all that wait
}

// startRenewal starts a renewal for a client whose lease does not cover q. It returns nil if the client's demand is too
// small for a lease. The shard's lock must be held.
func (l *ledger) startRenewal(ctx context.Context, q *request, e *lease) *renewal {
	want := e.size(q.now, q.Cost, l.terms)
	if want <= q.Cost {
		return nil
	}
	r := &renewal{
		request: *q,
		lease:   e,
		lostAt:  time.Now().Add(max(renewTimeout, 2*e.roundTrip)),
		free:    want - q.Cost,
		done:    make(chan struct{}),
	}
	// At least the default, so that a caller with little time does not waste the lease.
	r.deadline = q.start.Add(max(q.Timeout, core.DefaultTimeout))
	e.renewal = r
	go l.renew(context.WithoutCancel(ctx), r, want)
	return r
}

// renew takes a lease of want units, or else of the units that remain. If none remain, the request that started r goes
// to the next ledger.
func (l *ledger) renew(ctx context.Context, r *renewal, want int64) {
	var a answer
	for tries := 0; tries < 2 && want > r.Cost; tries++ {
		r.updateTimeout()
		ask := r.Ask
		ask.Cost, ask.Override = want, &core.Override{Delay: l.terms.Lifetime}
		a = answer{sent: l.table.now(), units: want}
		if a.reply = l.Ledger.Take(ctx, ask); a.reply.Err != nil || a.reply.Allowed {
			break
		}
		want = a.reply.Remaining - a.reply.Remaining%r.Cost
	}
	if a.reply.Err == nil && !a.reply.Allowed && !r.settled.Load() { // its caller waits
		// The next ledger may cache a refusal, which then answers the requests that wait.
		r.first = l.takeDirect(ctx, &r.request, true)
	}
	l.finish(r, a)
}

// finish stores the lease and wakes the requests that wait for r. The caller that started r gets its units first,
// unless it has left. After a reset the entry is no longer in its shard, so the lease serves that caller only.
func (l *ledger) finish(r *renewal, a answer) {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	defer close(r.done)
	e := r.lease
	e.renewal = nil
	hasCaller := r.settled.CompareAndSwap(false, true)
	switch {
	case a.reply.Err != nil:
		r.first = a.reply
	case a.reply.Allowed:
		a.received = l.table.now()
		lifetime := l.terms.Lifetime
		after := a.reply.At.Add(-lifetime - time.Microsecond)
		if e.lastAt.After(after) { // so that Return finds the lease of a unit
			after = e.lastAt
		}
		*e = lease{
			after: after, lastAt: e.lastAt, since: a.sent, left: a.units, reply: a.reply,
			until:    a.sent.Add(lifetime - lifetime/1000), // a thousandth less, for clocks of different pace
			received: a.received, roundTrip: a.received.Sub(a.sent),
		}
		r.leased = true
		if hasCaller {
			r.first = e.use(a.received, r.Cost, false, lifetime)
			r.first.Source, r.first.At = core.SourceCounted, a.reply.At // the time at which Return finds its units
		}
	}
}

// await waits for the renewal until the given time, or until the reply counts as lost, and reports whether there is a
// lease.
func (l *ledger) await(ctx context.Context, r *renewal, until time.Time) (leased bool, err error) {
	if r.lostAt.Before(until) {
		until = r.lostAt
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.leased, r.first.Err
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, waitError(ctx, core.StageLease)
	}
}

// awaitOwn waits for the renewal that q started, and returns its answer to q.
func (l *ledger) awaitOwn(ctx context.Context, q *request, r *renewal) core.Decision {
	ctx, cancel := context.WithDeadlineCause(ctx, q.deadline, core.ErrTimeout)
	defer cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.settled.CompareAndSwap(false, true) {
			return core.Decision{Err: waitError(ctx, core.StageReply)}
		}
		<-r.done // finish answers q, whose units may be counted
	}
	return r.first
}

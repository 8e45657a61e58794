package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// renewal is a request for a lease in flight. It has a context of its own: the caller that started it may leave, and
// the lease is for the others then. Other requests of the same client wait for it instead of asking the store
// themselves.
type renewal struct {
	request           // of the caller that started it, with the renewal's own deadline
	lease   *lease    // the entry to renew
	lost    time.Time // from then on the reply is taken for lost
	free    int64     // units that are not reserved for requests that wait for long

	// settled is set by the caller that started it, to leave, or by finish, to answer: the first of them decides.
	settled atomic.Bool

	done    chan struct{} // closed when the renewal is over; what follows is final then
	granted bool
	first   core.Decision // for the caller that started it; its Err is for all that wait
}

// startRenewal starts to take a lease for a client that has none, or has one that does not suffice for q. It returns
// nil if the client asks for too little: see TestWant. The shard's lock must be held.
func (l *ledger) startRenewal(ctx context.Context, q *request, e *lease) *renewal {
	want := e.want(q.now, q.Cost, l.terms)
	if want <= q.Cost {
		return nil
	}
	r := &renewal{
		request: *q,
		lease:   e,
		lost:    time.Now().Add(max(renewalPatience, 2*e.took)),
		free:    want - q.Cost,
		done:    make(chan struct{}),
	}
	r.deadline = q.renewalDeadline(ctx)
	e.renewal = r
	go l.renew(context.WithoutCancel(ctx), r, want)
	return r
}

// renewalDeadline returns until when a renewal that q starts waits for its reply: as long as q may take, and at least
// as long as a server may be expected to take. A caller in a hurry would else waste the lease (TestCallerLeaves). The
// zero time is no deadline; then the client's own timeouts end the wait.
func (q *request) renewalDeadline(ctx context.Context) time.Time {
	deadline := q.deadline
	if deadline.IsZero() {
		deadline, _ = ctx.Deadline()
	}
	if least := q.began.Add(core.DefaultTimeout); !deadline.IsZero() && least.After(deadline) {
		return least
	}
	return deadline
}

// renew takes a lease of as much as is wanted, in units, or else of as much as there is. If there is nothing to lease,
// the request that started r is asked alone.
func (l *ledger) renew(ctx context.Context, r *renewal, want int64) {
	var a answer
	for tries := 0; tries < 2 && want > r.Cost; tries++ {
		r.elapse()
		ask := r.Ask
		ask.Cost, ask.Override = want, &core.Override{Ahead: l.terms.Lifetime}
		a = answer{sent: l.table.now(), units: want}
		if a.reply = l.Ledger.Take(ctx, ask); a.reply.Err != nil || a.reply.Allowed {
			break
		}
		want = a.reply.Remaining - a.reply.Remaining%r.Cost
	}
	if a.reply.Err == nil && !a.reply.Allowed && !r.settled.Load() { // else its caller has left (TestNothingLeftFor)
		// Requests that wait are answered by what this one is told, if that is a refusal.
		r.first = l.alone(ctx, &r.request, true)
	}
	l.finish(r, a)
}

// finish makes a lease of what has been taken, and tells the requests that wait for r. The caller that started r gets
// its units first, unless it has left. After a reset the entry is not in its shard any more, so that the lease serves
// that caller only (TestResetMeanwhile).
func (l *ledger) finish(r *renewal, a answer) {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	defer close(r.done)
	e := r.lease
	e.renewal = nil
	answers := r.settled.CompareAndSwap(false, true)
	switch {
	case a.reply.Err != nil:
		r.first = a.reply
	case a.reply.Allowed:
		a.received = l.table.now()
		lifetime := l.terms.Lifetime
		after := a.reply.At.Add(-lifetime - time.Microsecond)
		if e.given.After(after) { // so that Return can tell from which lease a unit is (TestReturnToLease)
			after = e.given
		}
		*e = lease{
			after: after, given: e.given, since: a.sent, left: a.units, reply: a.reply,
			until:    a.sent.Add(lifetime - lifetime/1000), // sooner, since clocks differ in pace (TestLifetime)
			received: a.received, took: a.received.Sub(a.sent),
		}
		r.granted = true
		if answers {
			r.first = e.spend(a.received, r.Cost, false, lifetime)
			r.first.Source, r.first.At = core.SourceCounted, a.reply.At // where Return finds its units
		}
	}
}

// await waits until the renewal is over, and returns whether there is a lease. It returns false when the reply is
// taken for lost or patience has ended.
func (l *ledger) await(ctx context.Context, r *renewal, patience time.Time) (granted bool, err error) {
	if r.lost.Before(patience) {
		patience = r.lost
	}
	timer := time.NewTimer(time.Until(patience))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.granted, r.first.Err
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, left(ctx, core.StageLease)
	}
}

// awaitOwn waits for the renewal that q has started, and answers q.
func (l *ledger) awaitOwn(ctx context.Context, q *request, r *renewal) core.Decision {
	if !q.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.deadline, core.ErrTimeout)
		defer cancel()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.settled.CompareAndSwap(false, true) {
			return core.Decision{Err: left(ctx, core.StageReply)}
		}
		<-r.done // q is answered: it may have been counted (TestAnsweredWhileLeaving)
	}
	return r.first
}

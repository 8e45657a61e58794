package regions

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// eventual decides requests in the local region, by its view of the others.
//
// Theorem E. Let region A admit a request when its script runs at t. For each other region B let it use a poll that ran
// there at x <= t, or B's share. Then all regions have admitted in (t-W, t] at most the sum of N, the units that each
// polled B has admitted in (x, t], and the units that each other B has admitted in (t-W, t] above its share.
//
// Proof. A's script counts all of A's units in (t-W, t]. It admits only if they and the cost are at most N less the
// units withheld for each B, or at most A's share, which is N less all shares of others. The units withheld for a
// polled B are at least its count in (x-W, x], which contains (t-W, x], and for another B at least its share. So A's
// units, the cost, the units of each polled B until x, and the shares of the others are at most N. The remaining units
// are as stated. Every window that holds too much ends at an admission, so the bound holds for all windows. QED.
//
// So without polls every region admits at most its share, and all hold at most N together after a window.
//
// The result of a poll is valid for 2 s and a PollInterval after it was sent. Units above the share are withheld for W
// from its arrival, when all of them have left.
type eventual struct {
	*rule
	seed [2]maphash.Seed // differs by rule, so that the table tells apart a client's rules
}

// request is a request in progress.
type request struct {
	rule   *rule
	ask    core.Ask
	limits []core.Limit // limits of the request
	home   int          // index of the client's home region, or -1
	holder holder
}

// Take implements [core.Ledger]. It decides in the local region with the units that the others leave, and uses at most
// a share beyond the last poll. If that bound refuses, or units that may have left since the last poll, it waits once
// for a new poll and decides again, with the shares of regions that did not answer.
func (e *eventual) Take(ctx context.Context, ask core.Ask) core.Decision {
	e.checkOnce()
	home, err := e.home(ask.Key)
	if err != nil {
		return core.Decision{Err: err}
	}
	q := &request{e.rule, ask, e.limitsOf(&ask), home, e.holder(ask.Key)}
	arrival := e.store.now()
	mayAdmit := ask.Cost > 0 && !ask.Peek && !isCharge(&ask)
	v := view{mayAdmit: mayAdmit && fits(ask.Cost, q.limits)}
	v.read(q, arrival)
	d := q.decide(ctx, &v)
	if d.Err != nil || !mayAdmit || d.RetryAfter == core.Never {
		return d
	}
	start := e.store.now()
	done := q.poll(&v, &d, start)
	if done == nil {
		return d
	}
	if err := q.await(ctx, done, arrival); err != nil {
		return core.Decision{Err: err}
	}
	v = view{mayAdmit: true, start: start}
	v.read(q, e.store.now())
	return q.decide(ctx, &v)
}

// await waits for a poll for at most three quarters of the rest of the timeout; the decision needs the last quarter.
func (q *request) await(ctx context.Context, done <-chan struct{}, arrival time.Duration) error {
	longest, deadline := silentAfter, arrival+q.ask.Timeout
	if q.ask.Timeout > 0 {
		longest = min(longest, (deadline-q.rule.store.now())*3/4)
	}
	select {
	case <-done:
	case <-time.After(longest):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if q.ask.Timeout > 0 {
		q.ask.Timeout = max(deadline-q.rule.store.now(), 1)
	}
	return nil
}

// pollThreshold is the fraction of a limit, divided by the other regions, that a client uses before the first poll.
// All of these together use at most this fraction unseen.
const pollThreshold = 20

// poll requests a poll after a decision, for a client that is known, refused, or beyond its pollThreshold. It
// returns a channel that is closed at the end of the poll, or nil if the decision is final.
func (q *request) poll(v *view, d *core.Decision, now time.Duration) <-chan struct{} {
	used := v.quotas[limitIndex(d, q.limits)].left - d.Remaining
	if d.Allowed && !v.known && used*pollThreshold*int64(len(q.rule.order)-1) < d.Limit.Requests {
		return nil
	}
	w := poll{holder: q.holder, rule: q.rule, key: q.ask.Key, left: float64(d.Remaining) / float64(d.Limit.Requests)}
	if !d.Allowed && (v.short || v.stale) {
		w.left = urgent
	}
	done, ok := q.rule.store.table.poll(w, now)
	if !ok {
		q.rule.notice(notice.RegionShares,
			"more clients are busy than regions.Config.MaxClients: further clients have only this region's share")
	}
	return done
}

// decide decides in the local region with the quotas of v.
func (q *request) decide(ctx context.Context, v *view) core.Decision {
	s := q.rule.store
	local := &q.rule.remotes[s.local]
	ledger, ask := local.whole, q.ask
	switch {
	case !v.known && !v.lowered:
	case !v.known && v.mayAdmit && q.home < 0 && ask.Override == nil && local.share != nil &&
		fits(ask.Cost, local.shares):
		ledger = local.share // without an override, so that leases and cached refusals apply
	default:
		if i := v.exceeded(&ask, q.limits); i >= 0 {
			return q.refuse(i, v)
		}
		ask.Override = v.override(&ask, q.limits)
	}
	start := s.now()
	d := ledger.Take(ctx, ask)
	if d.Err != nil {
		return d
	}
	if d.Source == core.SourceCounted {
		s.clock.read(d.At.Sub(s.epoch), start, s.now())
	}
	limit := limitIndex(&d, q.limits)
	d.Limit, d.Region = q.limits[limit], s.config.Local
	switch quota := v.quotas[limit]; {
	case d.Allowed:
		d.Remaining = max(0, d.Remaining+quota.left-max(1, quota.most))
	case v.nextExpiry > 0 && quota.localUsed <= quota.most && ask.Cost-d.Remaining <= 1: // one unit suffices
		d.RetryAfter = min(d.RetryAfter, v.nextExpiry)
	}
	return d
}

// refuse refuses a request that exceeds the quota of limit i. It sends no request to the store.
func (q *request) refuse(i int, v *view) core.Decision {
	s, after := q.rule.store, cmp.Or(v.nextExpiry, silentAfter)
	return core.Decision{
		Source: core.SourceCached, Region: s.config.Local, Limit: q.limits[i],
		Remaining: max(0, v.quotas[i].most-v.quotas[i].localUsed), ResetAfter: after, RetryAfter: after,
		At: s.epoch.Add(s.now() + time.Duration(s.clock.ahead.Load())).Truncate(time.Microsecond),
	}
}

package regions

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// eventual is a rule that this region decides alone, by its view of the others.
//
// Theorem E. Let region A admit a request when its script runs at t. Of each other region B let it go by a look
// that ran there at x <= t, or by B's share. Then all regions have admitted in (t-W, t] at most N, what each B that
// was looked at has admitted in (x, t], and what each other B has admitted in (t-W, t] above its share.
//
// Proof. A's script counts all of A's units in (t-W, t], and admits only if they and the cost are at most N less
// what each B withholds, or at most A's share, which is N less all shares of others. By a look B withholds at least
// its count in (x-W, x], which contains (t-W, x], and else at least its share. So A's units, the cost, the units of
// each B until x, and the shares of the others are at most N. What is left out is as stated. Every window that holds
// too much ends at an admission, so the bound is for all windows. QED.
//
// So where no look comes, every region keeps to its share, and all hold N together from a window after that.
//
// A look is good for 2 s and a LookEvery after it was sent. Its units are withheld for W from its answer on, where
// they are more than the share: then all of them have left.
type eventual struct {
	*rule
	seeds [2]maphash.Seed // of this rule, so that a client under another one is another in the table
}

// question is a request on its way.
type question struct {
	rule   *rule
	ask    core.Ask
	limits []core.Limit // of the request
	home   int          // of the client, or -1
	holder holder
}

// Take implements [core.Ledger]. It decides in this region, by what the others leave, and no
// further than a share ahead of the last look. Where that is what refuses, or units that may have left since the
// last look, it waits for a new one, once, and decides by its results, and by the shares of regions where it
// has none.
func (e *eventual) Take(ctx context.Context, ask core.Ask) core.Decision {
	e.begin()
	home, err := e.home(ask.Key)
	if err != nil {
		return core.Decision{Err: err}
	}
	q := &question{e.rule, ask, e.limitsOf(&ask), home, e.holder(ask.Key)}
	began := e.store.now()
	takes := ask.Cost > 0 && !ask.Peek && !isCharge(&ask)
	v := view{takes: takes && fits(ask.Cost, q.limits)}
	v.read(q, began)
	d := q.decide(ctx, &v)
	if d.Err != nil || !takes || d.RetryAfter == core.Never {
		return d
	}
	asked := e.store.now()
	look := q.wish(&v, &d, asked)
	if look == nil {
		return d
	}
	if err := q.await(ctx, look, began); err != nil {
		return core.Decision{Err: err}
	}
	v = view{takes: true, asked: asked}
	v.read(q, e.store.now())
	return q.decide(ctx, &v)
}

// await waits for a look for at most three quarters of what is left of the timeout: the rest is for the decision.
func (q *question) await(ctx context.Context, look <-chan struct{}, began time.Duration) error {
	longest, deadline := silence, began+q.ask.Timeout
	if q.ask.Timeout > 0 {
		longest = min(longest, (deadline-q.rule.store.now())*3/4)
	}
	select {
	case <-look:
	case <-time.After(longest):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if q.ask.Timeout > 0 {
		q.ask.Timeout = max(deadline-q.rule.store.now(), 1)
	}
	return nil
}

// unnoticed is the part of a limit that a client may use here, shared by the other regions, before it is looked at: all
// of these together do not know of more than that.
const unnoticed = 20

// wish asks for a look after a decision, at a client that is known or refused, or that has used a part of d.Limit. It
// returns a channel that is closed when the look is over, or nil if the decision stands.
func (q *question) wish(v *view, d *core.Decision, now time.Duration) <-chan struct{} {
	used := v.rooms[limitIndex(d, q.limits)].left - d.Remaining
	if d.Allowed && !v.known && used*unnoticed*int64(len(q.rule.order)-1) < d.Limit.Requests {
		return nil
	}
	w := wish{holder: q.holder, rule: q.rule, key: q.ask.Key, left: float64(d.Remaining) / float64(d.Limit.Requests)}
	if !d.Allowed && (v.short || v.stale) {
		w.left = awaited
	}
	look, ok := q.rule.store.table.wish(w, now)
	if !ok {
		q.rule.notice(notice.RegionShares,
			"more clients are busy than regions.Config.MaxClients: further ones have this region's share alone")
	}
	return look
}

// decide decides in this region, by what v leaves of the limits.
func (q *question) decide(ctx context.Context, v *view) core.Decision {
	s := q.rule.store
	here := &q.rule.ledgers[s.here]
	ledger, ask := here.whole, q.ask
	switch {
	case !v.known && !v.lowers:
	case !v.known && v.takes && q.home < 0 && ask.Override == nil && here.share != nil && fits(ask.Cost, here.shares):
		ledger = here.share // without an override, so that leases and remembered refusals are as ever
	default:
		if i := v.exceeded(&ask, q.limits); i >= 0 {
			return q.refuse(i, v)
		}
		ask.Override = v.override(&ask, q.limits)
	}
	asked := s.now()
	d := ledger.Take(ctx, ask)
	if d.Err != nil {
		return d
	}
	if d.Source == core.SourceCounted {
		s.clock.read(d.At.Sub(s.epoch), asked, s.now())
	}
	limit := limitIndex(&d, q.limits)
	d.Limit, d.Region = q.limits[limit], s.config.Here
	switch room := v.rooms[limit]; {
	case d.Allowed:
		d.Remaining = max(0, d.Remaining+room.left-max(1, room.most))
	case v.leaves > 0 && room.local <= room.most && ask.Cost-d.Remaining <= 1: // one unit is enough
		d.RetryAfter = min(d.RetryAfter, v.leaves)
	}
	return d
}

// refuse refuses a request for which limit i has no room, without asking the store.
func (q *question) refuse(i int, v *view) core.Decision {
	s, after := q.rule.store, cmp.Or(v.leaves, silence)
	return core.Decision{
		Source: core.SourceCached, Region: s.config.Here, Limit: q.limits[i],
		Remaining: max(0, v.rooms[i].most-v.rooms[i].local), ResetAfter: after, RetryAfter: after,
		At: s.epoch.Add(s.now() + time.Duration(s.clock.ahead.Load())).Truncate(time.Microsecond),
	}
}

package regions

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// eventual is a rule that this region decides alone, by what it knows of the others.
//
// Theorem E. Let region A admit a request when its script runs at t. Of each other region B let it go by a look
// that ran there at x <= t, or by B's share. Then all regions have admitted in (t-W, t] at most N, what each B that
// was looked at has admitted in (x, t], and what each other B has admitted in (t-W, t] above its share.
//
// Proof. A's script counts all of A's units in (t-W, t], and admits only if they and the cost are at most N less
// what each B withholds, or at most A's share, which is N less all shares of others. By a look B withholds at least
// its count in (x-W, x], which contains (t-W, x], and else at least its share. So A's units, the cost, those of each B
// until x, and the shares of the others are at most N. What is left out is as stated. Every window that holds too
// much ends at an admission, so the bound is for all windows. QED.
//
// So where no look comes, every region keeps to its share, and all hold N together from a window after that.
//
// A look is gone by for 2 s and an Every after it was sent. What it has found is withheld for W from when the answer
// came, if it is more than the share: then all of it has left.
type eventual struct {
	*rule
	seeds [2]maphash.Seed // of this rule, so that a client under another one is another in the table
}

// question is a request on its way.
type question struct {
	*eventual
	core.Ask
	limits []core.Limit
	home   int // of the client, or -1
	holder holder
}

// Take implements [core.Ledger]. It decides in this region, by what the others leave, and no
// further than a share ahead of the last look. Where that is what refuses, or units that may have left since the
// last look, it waits for a new one, once, and decides by what that has found, and by the shares of regions where it
// has found nothing.
func (e *eventual) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	e.begin()
	home, err := e.home(ask.Key)
	if err != nil {
		return core.Decision{}, err
	}
	q := &question{e, ask, e.limitsOf(&ask), home, e.holder(ask.Key)}
	began := e.now()
	takes := ask.Cost > 0 && !ask.Peek && !isCharge(&ask)
	v := view{takes: takes && fits(ask.Cost, q.limits)}
	v.read(q, began)
	d, err := q.decide(ctx, &v)
	if err != nil || !takes || d.RetryAfter == core.Never {
		return d, err
	}
	asked := e.now()
	look, waits := q.wish(&v, &d, asked)
	if !waits {
		return d, nil
	}
	if err := q.await(ctx, q.table.over(look), began); err != nil {
		return core.Decision{}, err
	}
	v = view{takes: true, asked: asked}
	v.read(q, e.now())
	return q.decide(ctx, &v)
}

func isCharge(ask *core.Ask) bool { return ask.Override != nil && ask.Override.Charge }

// await waits for a look for at most three quarters of what is left of the timeout: the rest is for the decision.
func (q *question) await(ctx context.Context, look <-chan struct{}, began time.Duration) error {
	longest := silence
	if q.Timeout > 0 {
		longest = min(longest, (began+q.Timeout-q.now())*3/4)
	}
	select {
	case <-look:
	case <-time.After(longest):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if q.Timeout > 0 {
		q.Timeout = max(began+q.Timeout-q.now(), 1)
	}
	return nil
}

// unnoticed is the part of a limit that a client may use here, shared by the other regions, before it is looked at: all
// of these together hold no more than that which is unknown here.
const unnoticed = 20

// wish asks for a look after a decision, and reports whether the request is to wait for it: at a client that is known
// or refused, or that has used a part of the binding limit.
func (q *question) wish(v *view, d *core.Decision, now time.Duration) (*wish, bool) {
	used := v.rooms[binds(d, q.limits)].left - d.Remaining
	if d.Allowed && !v.known && used*unnoticed*int64(len(q.regions)-1) < d.Limit.Requests {
		return nil, false
	}
	left, waits := float64(d.Remaining)/float64(d.Limit.Requests), !d.Allowed && (v.short || v.stale)
	if waits {
		left = awaited
	}
	look := q.table.wish(wish{holder: q.holder, rule: q.eventual, key: q.Key, left: left}, now)
	if look == nil {
		q.notice(notice.RegionShares, "more clients are busy than regions.Config.Clients: others have a share alone")
	}
	return look, waits && look != nil
}

// decide decides in this region, by what v leaves of the limits.
func (q *question) decide(ctx context.Context, v *view) (core.Decision, error) {
	b := &q.bound[q.here]
	by, ask := b.whole, q.Ask
	switch {
	case !v.known && !v.lowers:
	case !v.known && v.takes && q.home < 0 && ask.Override == nil && b.share != nil && fits(ask.Cost, b.shares):
		by = b.share // which the table knows nothing of: leases and remembered refusals are as ever
	default:
		if i := v.exceeded(&ask, q.limits); i >= 0 {
			return q.refuse(i, v), nil
		}
		ask.Override = v.override(&ask, q.limits)
	}
	asked := q.now()
	d, err := by.Take(ctx, ask)
	if err != nil {
		return d, err
	}
	if d.Source == core.SourceCounted {
		q.clock.read(d.At.Sub(q.epoch), asked, q.now())
	}
	limit := binds(&d, q.limits)
	d.Limit, d.Region = q.limits[limit], q.regions[q.here].name
	switch room := v.rooms[limit]; {
	case d.Allowed:
		d.Remaining = max(0, d.Remaining+room.left-max(1, room.most))
	case v.leaves > 0 && room.local <= room.most && ask.Cost-d.Remaining <= 1: // one unit is enough
		d.RetryAfter = min(d.RetryAfter, v.leaves)
	}
	return d, nil
}

// refuse refuses a request that limit i has no room for, by what is known.
func (q *question) refuse(i int, v *view) core.Decision {
	after := cmp.Or(v.leaves, silence)
	return core.Decision{
		Source: core.SourceRemembered, Region: q.regions[q.here].name, Limit: q.limits[i],
		Remaining: max(0, v.rooms[i].most-v.rooms[i].local), ResetAfter: after, RetryAfter: after,
		At: q.epoch.Add(q.now() + time.Duration(q.clock.ahead.Load())).Truncate(time.Microsecond),
	}
}

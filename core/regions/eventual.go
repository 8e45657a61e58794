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
// Theorem E. Let region A admit a request when its script runs at t, by looks that ran in each other
// region B at x <= t (x = t-W if none). Then all regions have admitted in (t-W, t] at most N and, of each B,
// what B has admitted in (x, t].
//
// Proof. A's script counts all of A's units in (t-W, t], and admits only if they and the cost are at
// most N less what is known of each B. That is B's count in (x-W, x], which contains (t-W, x]. So A's units,
// those of each B until x, and the cost are at most N. What is left out is B's units in (x, t]. Every window
// that holds too much ends at an admission, so the bound is for all windows. QED.
//
// What is known is dropped when W has passed since the answer came: then all of it has left. Until the next
// look x is t-W.
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
// further than a share ahead of the last look. Where that is what refuses, or a look that is not
// fresh, it waits for a look, once, and decides by what the others leave.
func (e *eventual) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	e.begin()
	home, err := e.home(ask.Key)
	if err != nil {
		return core.Decision{}, err
	}
	q := &question{e, ask, e.limitsOf(&ask), home, e.holder(ask.Key)}
	began := e.now()
	takes := ask.Cost > 0 && !ask.Peek && !isCharge(&ask)
	v := view{ahead: takes && fits(ask.Cost, q.limits)}
	v.read(q, began)
	d, err := q.decide(ctx, &v)
	if err != nil || !takes || d.RetryAfter == core.Never {
		return d, err
	}
	look := q.wish(&v, &d, began)
	if d.Allowed || look == nil || !v.short && !v.stale {
		return d, nil
	}
	if err := q.await(ctx, q.table.over(look), began); err != nil {
		return core.Decision{}, err
	}
	v = view{}
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

// wish asks for a look after a decision: at a client that is known or refused, or that has used a
// twentieth of the binding limit, shared by the other regions. So all of these together hold no more
// than a twentieth that is unknown here.
func (q *question) wish(v *view, d *core.Decision, now time.Duration) *wish {
	used := v.rooms[binds(d, q.limits)].left - d.Remaining
	if d.Allowed && !v.known && used*20*int64(len(q.regions)-1) < d.Limit.Requests {
		return nil
	}
	left := float64(d.Remaining) / float64(d.Limit.Requests)
	look := q.table.wish(wish{holder: q.holder, rule: q.eventual, key: q.Key, left: left}, now)
	if look == nil {
		q.notice(notice.RegionShares, "more clients are busy than regions.Config.Clients: others have a share alone")
	}
	return look
}

// decide decides in this region, by what v leaves of the limits.
func (q *question) decide(ctx context.Context, v *view) (core.Decision, error) {
	b := &q.bound[q.here]
	by, ask := b.whole, q.Ask
	switch {
	case !v.known && !v.lowers:
	case !v.known && v.short && q.home < 0 && ask.Override == nil && b.share != nil && fits(ask.Cost, b.shares):
		by = b.share // which the table knows nothing of: leases and remembered refusals are as ever
	default:
		if i := v.exceeded(&ask, q.limits); i >= 0 {
			return q.refuse(i, v), nil
		}
		ask.Override = v.override(&ask, q.limits)
	}
	d, err := by.Take(ctx, ask)
	if err != nil {
		return d, err
	}
	limit := binds(&d, q.limits)
	d.Limit, d.Region = q.limits[limit], q.regions[q.here].name
	switch room := v.rooms[limit]; {
	case d.Allowed:
		d.Remaining = max(0, d.Remaining+room.left-max(1, room.most))
	case v.leaves > 0:
		d.RetryAfter = min(d.RetryAfter, v.leaves)
	}
	return d, nil
}

// refuse refuses a request that limit i has no room for, by what is known.
func (q *question) refuse(i int, v *view) core.Decision {
	after := cmp.Or(v.leaves, silence)
	return core.Decision{
		Source: core.SourceRemembered, Region: q.regions[q.here].name, Limit: q.limits[i],
		Remaining: max(0, v.rooms[i].left-v.rooms[i].local), ResetAfter: after, RetryAfter: after,
		At: q.epoch.Add(v.at).Truncate(time.Microsecond),
	}
}

package core

import (
	"context"
	"slices"
	"time"
)

// withholding is what one limit keeps back from a client because of the units that
// the fallbacks have admitted.
type withholding struct {
	requests int64         // the lowered limit, which the first store enforces
	excess   int64         // requests less what the client may have; if positive, a cost above 0 is refused
	retry    time.Duration // if refused, the time until the fallback counts few enough units
	reset    time.Duration // the time until the fallback's quota starts to come back; 0 if it counts nothing
}

// fewLimits is the largest number of limits for which no memory is allocated
// to find out whether the fallback keeps anything back (TestFallbackAllocs).
const fewLimits = 4

// takeLowered asks the first store while the fallback may count something. What
// the fallback counts for the client lowers the limits of the first store, so that it
// still checks and counts in one step, and charges nothing that is refused
// (TestRecovery). r must not be a charge.
func (l *Limiter) takeLowered(ctx context.Context, r Request) (Decision, error) {
	var few [fewLimits]withholding
	limits := l.limitsFor(&r)
	withheld, lowers := l.fallback.appendWithholdings(ctx, few[:0], limits, r)
	ask := r.ask(l.firstTimeout)
	if !lowers {
		return l.counts.Take(ctx, ask)
	}
	limits = slices.Clone(limits)
	ask.Special = &Special{Limits: limits}
	for i, w := range withheld {
		limits[i].Requests = w.requests
		ask.Peek = ask.Peek || w.excess > 0 // the request is refused in any case
	}
	d, err := l.counts.Take(ctx, ask)
	if err == nil {
		addWithholdings(&d, withheld, l.limitsFor(&r), r.Cost)
	}
	return d, err
}

// appendWithholdings appends what each limit keeps back from the client, and
// reports whether any limit keeps back anything. It takes at most peekTimeout, so
// that time is left for the first store (TestFallbackHangs). A fallback that fails
// for one of the limits keeps nothing back (TestFallbackFailsInPart), and neither does
// a cost that exceeds a limit: it can never pass, and the first store says so
// (TestRecovery).
func (f *fallback) appendWithholdings(
	ctx context.Context, withheld []withholding, limits []Limit, r Request,
) (_ []withholding, lowers bool) {
	if f.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.peekTimeout, ErrTimeout)
		defer cancel()
	}
	for i := range limits {
		if r.Cost > limits[i].Requests {
			return nil, false
		}
		w, err := f.withhold(ctx, &limits[i], i, r)
		if err != nil {
			return nil, false
		}
		withheld = append(withheld, w)
		lowers = lowers || w.requests < limits[i].Requests || w.excess > 0
	}
	return withheld, lowers
}

// withhold returns what limit i keeps back from the client. The cost of r must not
// exceed the limit.
func (f *fallback) withhold(ctx context.Context, limit *Limit, i int, r Request) (withholding, error) {
	v := &f.views[i]
	look, share := Ask{Key: r.Key, Peek: true}, v.share
	if r.Limits != nil {
		shares := f.shares(r.Limits[i : i+1])
		look.Special, share = &Special{Limits: shares}, shares[0].Requests
	}
	d, err := v.counts.Take(ctx, look)
	if err != nil {
		return withholding{}, err
	}
	left := max(0, limit.Requests-(share-d.Remaining)*f.replicas)
	// A store takes no limit below 1 (TestLoweredLimits).
	w := withholding{requests: max(1, left), reset: d.ResetAfter}
	w.excess = w.requests - left
	if left >= r.Cost {
		return w, nil
	}
	// The request is refused. The first store is asked even so, because its own
	// numbers are part of the answer.
	//
	// The request can pass as soon as the fallback counts no more than room units.
	// At the same time the fallback itself admits a cost of share-room, so the
	// RetryAfter of this cost is the time to wait (TestRetryOfLargeShare).
	room := (limit.Requests - r.Cost) / f.replicas
	w.requests = limit.Requests - room*f.replicas
	w.excess = w.requests - left
	look.Cost = share - room
	d, err = v.counts.Take(ctx, look)
	w.retry = max(d.RetryAfter, time.Microsecond) // units may have left since the first look (TestRetryIsPositive)
	return w, err
}

// addWithholdings turns the first store's answer under lowered limits into the
// answer for the client. A limit with an excess refuses too, and the longest wait
// counts (TestRecoveryOfBoth). Quota comes back when a unit leaves either store
// (TestWholeShare).
func addWithholdings(d *Decision, withheld []withholding, limits []Limit, cost int64) {
	// The first limit stands for that of a store that does not say which one binds (TestRecoveryWithoutLimit).
	first := max(0, slices.IndexFunc(limits, func(limit Limit) bool { return limit.Name == d.Limit.Name }))
	binds, left := first, d.Remaining
	for i, w := range withheld {
		switch {
		case w.excess == 0:
		case cost == 0:
			binds = i
		case d.Allowed:
			d.Allowed, d.RetryAfter, binds, left = false, w.retry, i, left+cost
		case w.retry > d.RetryAfter:
			d.RetryAfter, binds = w.retry, i
		}
	}
	w := &withheld[binds]
	if binds != first {
		d.ResetAfter, left = w.reset, 0 // the store's numbers are about another limit (TestRecoveryOfSeveral)
	} else if w.reset > 0 && (d.ResetAfter == 0 || w.reset < d.ResetAfter) {
		d.ResetAfter = w.reset
	}
	d.Limit, d.Remaining = limits[binds], max(0, left-w.excess)
}

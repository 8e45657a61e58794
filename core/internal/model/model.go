// Package model computes a store's answers for one client under one rule, without lock or clock. Tests compare stores
// with it.
package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Client holds the counts of one client. The zero value counts nothing.
type Client struct {
	AllowedLead int64 // in place of window.AllowedLead, in microseconds, unless it is 0

	counts map[core.Limit]*window.Count // by limits without their Requests
}

// withName returns the limit with its default name filled in.
func withName(l core.Limit) core.Limit {
	switch {
	case l.Name != "":
	case l.Algorithm.IsLinear():
		l.Name = l.Algorithm.String()
	default:
		l.Name = l.Window.String()
	}
	return l
}

// countKey returns the key of a limit's count: the limit without its Requests.
func countKey(l core.Limit) core.Limit {
	l = withName(l)
	l.Requests = 0
	if l.Algorithm.IsLinear() {
		l.Window = 0
	}
	return l
}

func windowLimit(l core.Limit) window.Limit {
	return window.Limit{N: l.Requests, W: l.Window.Microseconds(), Algorithm: l.Algorithm}
}

// count returns the count of the client under a limit.
func (c *Client) count(l core.Limit) *window.Count {
	if n, ok := c.counts[countKey(l)]; ok {
		return n
	}
	return new(window.Count)
}

// units returns the units of a count at now, for a request counted at stamp.
func units(n *window.Count, l core.Limit, now, stamp int64) int64 {
	all := windowLimit(l)
	all.Unlimited = true
	return n.Decide(all, now, stamp, 0).Units()
}

// add counts units at stamp.
func add(n *window.Count, l core.Limit, now, stamp, units int64) {
	n.Prepare(windowLimit(l), now, units)
	n.Add(windowLimit(l), stamp, units)
}

// Ahead reports whether units are counted further ahead of at than allowed. A request that charges then moves them to
// at.
func (c *Client) Ahead(limits []core.Limit, at time.Time) bool {
	latest := at.UnixMicro() + c.allowedLead(limits)
	return slices.ContainsFunc(limits, func(l core.Limit) bool { return c.MinStamp(l) > latest })
}

// allowedLead returns the largest distance of a counted time ahead of the clock.
func (c *Client) allowedLead(limits []core.Limit) int64 {
	shortest := slices.MinFunc(limits, func(a, b core.Limit) int { return cmp.Compare(a.Window, b.Window) }).Window
	return cmp.Or(c.AllowedLead, window.AllowedLead(shortest.Microseconds()))
}

// MinStamp returns the earliest time in microseconds at which a further unit counts under a limit.
func (c *Client) MinStamp(l core.Limit) int64 { return c.count(l).MinStamp(windowLimit(l)) }

// countsAt returns the counts for a request at now by limit, and the time at which the request is counted, at least
// from. Units too far ahead of now are counted at now.
func (c *Client) countsAt(limits []core.Limit, now, from int64) (counts []*window.Count, stamp int64) {
	stamp = from
	for _, l := range limits {
		n := c.count(l)
		if c.MinStamp(l)-now > c.allowedLead(limits) {
			counted := units(n, l, now, n.MinStamp(windowLimit(l)))
			if n = new(window.Count); counted > 0 {
				add(n, l, now, now, counted)
			}
		}
		counts, stamp = append(counts, n), max(stamp, n.MinStamp(windowLimit(l)))
	}
	return counts, stamp
}

// Return takes back units of a request when the store's clock shows at, and returns the number that no longer
// count.
func (c *Client) Return(limits []core.Limit, at time.Time, back core.Refund) int64 {
	units := back.Units
	if back.Limits != nil {
		limits = back.Limits
	}
	for _, l := range limits {
		if n, ok := c.counts[countKey(l)]; ok { // else nothing is counted
			units = min(units, n.Return(windowLimit(l), back.At.UnixMicro(), at.UnixMicro(), back.Cost, back.Units))
		}
	}
	return units
}

// Ask returns the decision on a request under limits when the store's clock shows at.
func (c *Client) Ask(limits []core.Limit, at time.Time, ask core.Ask) core.Decision {
	var override core.Override
	if ask.Override != nil {
		override = *ask.Override
	}
	now, cost := at.UnixMicro(), ask.Cost
	counts, stamp := c.countsAt(limits, now, at.Add(override.Delay).UnixMicro())
	binding, verdict := decide(limits, counts, now, stamp, cost, override.Charge)
	d := core.Decision{
		Allowed:    verdict.Admitted,
		Source:     core.SourceCounted,
		Limit:      withName(binding),
		Remaining:  verdict.Remaining,
		ResetAfter: window.Duration(verdict.ResetAfter),
		RetryAfter: window.Duration(verdict.RetryAfter),
		At:         time.UnixMicro(now),
	}
	if ask.Peek || cost == 0 {
		return d
	}
	if c.counts == nil {
		c.counts = map[core.Limit]*window.Count{}
	}
	for i, l := range limits {
		c.counts[countKey(l)] = counts[i]
		if d.Allowed {
			add(counts[i], l, now, stamp, cost)
			d.At = time.UnixMicro(stamp)
		}
	}
	return d
}

// decide returns the binding limit and its verdict on cost units counted at stamp. A charge is always admitted.
func decide(
	limits []core.Limit, counts []*window.Count, now, stamp, cost int64, charge bool,
) (core.Limit, window.Verdict) {
	var binding core.Limit
	var verdict window.Verdict
	for i, l := range limits {
		limit := windowLimit(l)
		limit.Unlimited = charge
		v := counts[i].Decide(limit, now, stamp, cost)
		if charge {
			v = windowLimit(l).Charged(v)
		}
		if i == 0 || v.Binds(verdict) {
			binding, verdict = l, v
		}
	}
	return binding, verdict
}

// Usage returns the units that the client has used of each limit when the store's clock shows at.
func (c *Client) Usage(limits []core.Limit, at time.Time) []core.Usage {
	now := at.UnixMicro()
	counts, stamp := c.countsAt(limits, now, now)
	uses := make([]core.Usage, len(limits))
	for i, l := range limits {
		used := units(counts[i], l, now, stamp)
		uses[i] = core.Usage{
			Limit:      withName(l),
			Used:       used,
			Remaining:  max(0, l.Requests-used),
			ResetAfter: window.Duration(counts[i].Decide(windowLimit(l), now, stamp, 0).ResetAfter),
			At:         time.UnixMicro(now),
		}
	}
	return uses
}

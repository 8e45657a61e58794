// Package model gives the answers of a store by the arithmetic alone: one
// client under one rule, without a lock or a clock. Tests compare stores with
// it.
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
	Allowance int64 // in place of window.Allowance, in microseconds, unless it is 0

	counts map[core.Limit]*window.Count // by limits without their Requests
}

// named returns the limit with its default name filled in.
func named(l core.Limit) core.Limit {
	switch {
	case l.Name != "":
	case l.Algorithm.Linear():
		l.Name = l.Algorithm.String()
	default:
		l.Name = l.Window.String()
	}
	return l
}

// identity returns what tells the count of a limit from others.
func identity(l core.Limit) core.Limit {
	l = named(l)
	l.Requests = 0
	if l.Algorithm.Linear() {
		l.Window = 0
	}
	return l
}

func windowLimit(l core.Limit) window.Limit {
	return window.Limit{N: l.Requests, W: l.Window.Microseconds(), Algorithm: l.Algorithm}
}

// count returns the count of the client under a limit.
func (c *Client) count(l core.Limit) *window.Count {
	if n, ok := c.counts[identity(l)]; ok {
		return n
	}
	return new(window.Count)
}

// units returns how many units a count has at now, for a request that is counted at stamp.
func units(n *window.Count, l core.Limit, now, stamp int64) int64 {
	all := windowLimit(l)
	all.Boundless = true
	return n.Decide(all, now, stamp, 0).Units()
}

// add counts units at stamp.
func add(n *window.Count, l core.Limit, now, stamp, units int64) {
	n.Prepare(windowLimit(l), now, units)
	n.Add(windowLimit(l), stamp, units)
}

// Ahead reports whether anything is counted so far ahead of at that a request which is
// charged, or would be if it were admitted, has it count from then on.
func (c *Client) Ahead(limits []core.Limit, at time.Time) bool {
	latest := at.UnixMicro() + c.allowance(limits)
	return slices.ContainsFunc(limits, func(l core.Limit) bool { return c.Begun(l) > latest })
}

// allowance returns how far ahead of the clock something may be counted.
func (c *Client) allowance(limits []core.Limit) int64 {
	shortest := slices.MinFunc(limits, func(a, b core.Limit) int { return cmp.Compare(a.Window, b.Window) }).Window
	return cmp.Or(c.Allowance, window.Allowance(shortest.Microseconds()))
}

// Begun returns the time, in microseconds, before which nothing more is counted under a limit.
func (c *Client) Begun(l core.Limit) int64 { return c.count(l).Begun(windowLimit(l)) }

// countsAt returns by limit the counts that a request at now is decided by, and when the
// request is counted: not before from. Where that is too far ahead of now, all units are
// counted at now in them.
func (c *Client) countsAt(limits []core.Limit, now, from int64) (counts []*window.Count, stamp int64) {
	stamp = from
	for _, l := range limits {
		n := c.count(l)
		if c.Begun(l)-now > c.allowance(limits) {
			counted := units(n, l, now, n.Begun(windowLimit(l)))
			if n = new(window.Count); counted > 0 {
				add(n, l, now, now, counted)
			}
		}
		counts, stamp = append(counts, n), max(stamp, n.Begun(windowLimit(l)))
	}
	return counts, stamp
}

// Return takes back what a request has counted, when the store's clock shows at, and
// returns how many units count no more.
func (c *Client) Return(limits []core.Limit, at time.Time, back core.Refund) int64 {
	units := back.Units
	if back.Limits != nil {
		limits = back.Limits
	}
	for _, l := range limits {
		if n, ok := c.counts[identity(l)]; ok { // else nothing is counted
			units = min(units, n.Return(windowLimit(l), back.At.UnixMicro(), at.UnixMicro(), back.Cost, back.Units))
		}
	}
	return units
}

// Ask is the answer to an ask under limits when the store's clock shows at.
func (c *Client) Ask(limits []core.Limit, at time.Time, ask core.Ask) core.Decision {
	var override core.Override
	if ask.Override != nil {
		override = *ask.Override
	}
	now, cost := at.UnixMicro(), ask.Cost
	counts, stamp := c.countsAt(limits, now, at.Add(override.Ahead).UnixMicro())
	binding, verdict := judge(limits, counts, now, stamp, cost, override.Charge)
	d := core.Decision{
		Allowed:    verdict.Admitted,
		Source:     core.SourceCounted,
		Limit:      named(binding),
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
		c.counts[identity(l)] = counts[i]
		if d.Allowed {
			add(counts[i], l, now, stamp, cost)
			d.At = time.UnixMicro(stamp)
		}
	}
	return d
}

// judge returns the limit that binds, and its verdict on cost units that are counted at stamp: whatever it says, where
// beyond.
func judge(
	limits []core.Limit, counts []*window.Count, now, stamp, cost int64, beyond bool,
) (core.Limit, window.Verdict) {
	var binding core.Limit
	var verdict window.Verdict
	for i, l := range limits {
		limit := windowLimit(l)
		limit.Boundless = beyond
		v := counts[i].Decide(limit, now, stamp, cost)
		if beyond {
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
			Limit:      named(l),
			Used:       used,
			Remaining:  max(0, l.Requests-used),
			ResetAfter: window.Duration(counts[i].Decide(windowLimit(l), now, stamp, 0).ResetAfter),
			At:         time.UnixMicro(now),
		}
	}
	return uses
}

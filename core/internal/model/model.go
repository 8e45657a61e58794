// Package model is what a store must answer, by the arithmetic alone: one
// client under one rule, without a lock or a clock. Tests compare stores with
// it.
package model

import (
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Client is what is counted for one client. The zero value counts nothing.
type Client struct{ counts map[identity]count }

// identity is what tells the counts of a client under a rule apart.
type identity struct {
	name      string
	window    time.Duration
	algorithm core.Algorithm
}

// count returns the count of the client under a limit.
func (c *Client) count(l core.Limit) count {
	id := identity{named(l).Name, l.Window, l.Algorithm}
	if c.counts[id] == nil {
		if c.counts == nil {
			c.counts = map[identity]count{}
		}
		c.counts[id] = newCount(l.Algorithm)
	}
	return c.counts[id]
}

// named returns the limit with its default name filled in.
func named(l core.Limit) core.Limit {
	if l.Name == "" {
		l.Name = l.Window.String()
	}
	return l
}

// Ahead reports whether anything is counted so far ahead of at that a request which is
// charged, or would be if it were admitted, has it count from then on.
func (c *Client) Ahead(limits []core.Limit, at time.Time) bool {
	now := at.UnixMicro()
	for _, l := range limits {
		if c.begun(l)-now > allowance(limits) {
			return true
		}
	}
	return false
}

func (c *Client) begun(l core.Limit) int64 { return c.count(l).begun(l.Window.Microseconds()) }

func allowance(limits []core.Limit) int64 {
	shortest := limits[0].Window
	for _, l := range limits {
		shortest = min(shortest, l.Window)
	}
	return window.Allowance(shortest.Microseconds())
}

// Decide is the answer to a request when the store's clock shows at.
func (c *Client) Decide(limits []core.Limit, at time.Time, cost int64, charge bool) core.Decision {
	now := at.UnixMicro()
	latest := now + allowance(limits)
	stamp := c.stamp(limits, now)
	verdict, binding := c.bind(limits, now, stamp, cost)
	d := core.Decision{
		Allowed:    verdict.Admitted,
		Source:     core.Counted,
		Limit:      named(binding),
		Remaining:  verdict.Remaining,
		ResetAfter: window.Duration(verdict.ResetAfter),
		RetryAfter: window.Duration(verdict.RetryAfter),
		At:         time.UnixMicro(now),
	}
	if !charge || cost == 0 {
		return d
	}
	for _, l := range limits {
		if c.begun(l) > latest {
			c.count(l).rewind(l.Window.Microseconds(), now)
		}
	}
	if !verdict.Admitted {
		return d
	}
	d.At = time.UnixMicro(stamp)
	for _, l := range limits {
		c.count(l).charge(l.Window.Microseconds(), now, stamp, cost)
	}
	return d
}

// stamp returns when a request at now is counted.
func (c *Client) stamp(limits []core.Limit, now int64) int64 {
	stamp := now
	for _, l := range limits {
		if begun := c.begun(l); begun <= now+allowance(limits) {
			stamp = max(stamp, begun)
		}
	}
	return stamp
}

// Usage is what the client has used of each limit when the store's clock shows at.
func (c *Client) Usage(limits []core.Limit, at time.Time) []core.Use {
	now := at.UnixMicro()
	stamp := c.stamp(limits, now)
	uses := make([]core.Use, len(limits))
	for i, l := range limits {
		limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		rewound := c.begun(l)-now > allowance(limits)
		used := c.count(l).units(limit, now, stamp, rewound)
		uses[i] = core.Use{
			Limit:      named(l),
			Used:       used,
			Remaining:  max(0, l.Requests-used),
			ResetAfter: window.Duration(c.count(l).decide(limit, now, stamp, 0, rewound).ResetAfter),
			At:         time.UnixMicro(now),
		}
	}
	return uses
}

// bind returns the verdict of the limit that binds, and the limit.
func (c *Client) bind(limits []core.Limit, now, stamp, cost int64) (verdict window.Verdict, binding core.Limit) {
	latest := now + allowance(limits)
	for i, l := range limits {
		limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		v := c.count(l).decide(limit, now, stamp, cost, c.begun(l) > latest)
		if i == 0 || v.Binds(verdict) {
			verdict, binding = v, l
		}
	}
	return verdict, binding
}

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
type Client struct {
	logs     map[identity]*window.Log
	counters map[identity]*window.Counter
}

// identity is what tells the counts of a client under a rule apart.
type identity struct {
	name   string
	window time.Duration
}

func identify(l core.Limit) identity {
	if l.Name == "" {
		l.Name = l.Window.String()
	}
	return identity{l.Name, l.Window}
}

func (c *Client) log(l core.Limit) *window.Log {
	id := identify(l)
	if c.logs[id] == nil {
		if c.logs == nil {
			c.logs = map[identity]*window.Log{}
		}
		c.logs[id] = new(window.Log)
	}
	return c.logs[id]
}

func (c *Client) counter(l core.Limit) *window.Counter {
	id := identify(l)
	if c.counters[id] == nil {
		if c.counters == nil {
			c.counters = map[identity]*window.Counter{}
		}
		c.counters[id] = new(window.Counter)
	}
	return c.counters[id]
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

// begun is the time before which a limit counts nothing more.
func (c *Client) begun(l core.Limit) int64 {
	if l.Algorithm == core.SlidingLog {
		return c.log(l).Newest()
	}
	return c.counter(l).Start(l.Window.Microseconds())
}

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
	stamp := now
	for _, l := range limits {
		if begun := c.begun(l); begun <= latest {
			stamp = max(stamp, begun)
		}
	}
	var verdict window.Verdict
	var binding core.Limit
	for i, l := range limits {
		if v := c.decide(l, now, latest, stamp, cost); i == 0 || v.Binds(verdict) {
			verdict, binding = v, l
		}
	}
	if binding.Name == "" {
		binding.Name = binding.Window.String()
	}
	d := core.Decision{
		Allowed:    verdict.Admitted,
		Source:     core.Counted,
		Limit:      binding,
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
			c.rewind(l, now)
		}
	}
	if !verdict.Admitted {
		return d
	}
	d.At = time.UnixMicro(stamp)
	for _, l := range limits {
		w := l.Window.Microseconds()
		if l.Algorithm == core.SlidingLog {
			log := c.log(l)
			log.Expire(now - w)
			log.Push(stamp, cost)
		} else {
			counter := c.counter(l)
			*counter = counter.At(stamp, w)
			counter.Cur += cost
		}
	}
	return d
}

// decide is the verdict of one limit; what is counted after latest is too far ahead.
func (c *Client) decide(l core.Limit, now, latest, stamp, cost int64) window.Verdict {
	limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
	ahead := c.begun(l) > latest
	if l.Algorithm == core.SlidingLog {
		facts := c.log(l).Facts(limit, now, cost)
		if ahead {
			facts = facts.Rewound(now)
		}
		return facts.Decide(limit, now, stamp, cost)
	}
	counter := *c.counter(l)
	if ahead {
		counter = counter.Rewind(now, limit.W)
	}
	return counter.At(stamp, limit.W).Decide(limit, now, stamp, cost)
}

func (c *Client) rewind(l core.Limit, now int64) {
	w := l.Window.Microseconds()
	if l.Algorithm == core.SlidingLog {
		c.log(l).Rewind(now)
	} else {
		counter := c.counter(l)
		*counter = counter.Rewind(now, w)
	}
}

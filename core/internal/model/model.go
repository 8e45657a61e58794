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

// Decide is the answer to a request when the store's clock shows at.
func (c *Client) Decide(limits []core.Limit, at time.Time, cost int64, charge bool) core.Decision {
	now := at.UnixMicro()
	stamp := now
	for _, l := range limits {
		if l.Algorithm == core.SlidingLog {
			stamp = max(stamp, c.log(l).Newest())
		} else {
			stamp = max(stamp, c.counter(l).Start(l.Window.Microseconds()))
		}
	}
	var verdict window.Verdict
	var binding core.Limit
	for i, l := range limits {
		limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		var v window.Verdict
		if l.Algorithm == core.SlidingLog {
			v = c.log(l).Facts(limit, now, cost).Decide(limit, now, stamp, cost)
		} else {
			v = c.counter(l).At(stamp, limit.W).Decide(limit, now, stamp, cost)
		}
		if i == 0 || v.Binds(verdict) {
			verdict, binding = v, l
		}
	}
	if binding.Name == "" {
		binding.Name = binding.Window.String()
	}
	d := core.Decision{
		Allowed:    verdict.Admitted,
		Limit:      binding,
		Remaining:  verdict.Remaining,
		ResetAfter: window.Duration(verdict.ResetAfter),
		RetryAfter: window.Duration(verdict.RetryAfter),
		At:         time.UnixMicro(now),
	}
	if !charge || !verdict.Admitted || cost == 0 {
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

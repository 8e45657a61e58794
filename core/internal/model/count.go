package model

import (
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// count holds the units of one client under one limit. The model does not use
// [window.Count], so that it tells when that takes one algorithm for another.
type count interface {
	// begun returns the time before which nothing more is counted.
	begun(w int64) int64

	// decide returns the verdict on a request that is counted at stamp.
	decide(l window.Limit, now, stamp, cost int64) window.Verdict

	// units returns how many units count at now, where decide has the same arguments.
	units(l window.Limit, now, stamp int64) int64

	// back takes units back that were counted at a stamp, and returns how many of them
	// count no more.
	back(w, at, now, units int64) int64

	charge(w, now, stamp, cost int64)
}

func newCount(a core.Algorithm) count {
	switch a {
	case core.SlidingLog:
		return new(log)
	case core.SlidingCounter:
		return new(counter)
	case core.CoarseLog:
		return coarse{}
	}
	panic("model: unknown algorithm: " + a.String())
}

type log struct{ window.Log }

func (c *log) begun(int64) int64 { return c.Newest() }

func (c *log) decide(l window.Limit, now, stamp, cost int64) window.Verdict {
	return c.Facts(l, now, cost).Decide(l, now, stamp, cost)
}

func (c *log) units(l window.Limit, now, _ int64) int64 { return c.Since(now - l.W) }

func (c *log) charge(w, now, stamp, cost int64) {
	c.Expire(now - w)
	c.Push(stamp, cost)
}

func (c *log) back(w, at, now, units int64) int64 {
	if at <= now-w || c.Newest() <= now-w {
		return units
	}
	return c.Return(at, units)
}

type counter struct{ window.Counter }

func (c *counter) begun(w int64) int64 { return c.Start(w) }

func (c *counter) decide(l window.Limit, now, stamp, cost int64) window.Verdict {
	return c.At(stamp, l.W).Decide(l, now, stamp, cost)
}

func (c *counter) units(l window.Limit, _, stamp int64) int64 {
	return c.At(stamp, l.W).Counted(stamp, l.W)
}

func (c *counter) charge(w, _, stamp, cost int64) {
	c.Counter = c.At(stamp, w)
	c.Cur = min(c.Cur+cost, core.MaxCounterRequests)
}

func (c *counter) back(w, at, now, units int64) (returned int64) {
	if c.Over(now, w) {
		return units
	}
	c.Counter, returned = c.Return(w, at, now, units)
	return returned
}

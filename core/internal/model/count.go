package model

import (
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// count is what one client has counted under one limit. The model does not use
// [window.Count], so that it tells when that takes one algorithm for another.
type count interface {
	// begun returns the time before which nothing more is counted.
	begun(w int64) int64

	// decide returns the verdict on a request that is counted at stamp. If rewound is
	// true it is decided as after rewind.
	decide(l window.Limit, now, stamp, cost int64, rewound bool) window.Verdict

	// units returns how many units count at now, where decide has the same arguments.
	units(l window.Limit, now, stamp int64, rewound bool) int64

	rewind(w, now int64)
	charge(w, now, stamp, cost int64)
}

func newCount(a core.Algorithm) count {
	switch a {
	case core.SlidingLog:
		return new(log)
	case core.SlidingCounter:
		return new(counter)
	}
	panic("model: unknown algorithm: " + a.String())
}

type log struct{ window.Log }

func (c *log) begun(int64) int64 { return c.Newest() }

func (c *log) decide(l window.Limit, now, stamp, cost int64, rewound bool) window.Verdict {
	facts := c.Facts(l, now, cost)
	if rewound {
		facts = facts.Rewound(now)
	}
	return facts.Decide(l, now, stamp, cost)
}

func (c *log) units(l window.Limit, now, _ int64, _ bool) int64 { return c.Since(now - l.W) }

func (c *log) rewind(_, now int64) { c.Rewind(now) }

func (c *log) charge(w, now, stamp, cost int64) {
	c.Expire(now - w)
	c.Push(stamp, cost)
}

type counter struct{ window.Counter }

func (c *counter) begun(w int64) int64 { return c.Start(w) }

func (c *counter) decide(l window.Limit, now, stamp, cost int64, rewound bool) window.Verdict {
	from := c.Counter
	if rewound {
		from = from.Rewind(now, l.W)
	}
	return from.At(stamp, l.W).Decide(l, now, stamp, cost)
}

func (c *counter) units(l window.Limit, now, stamp int64, rewound bool) int64 {
	from := c.Counter
	if rewound {
		from = from.Rewind(now, l.W)
	}
	return from.At(stamp, l.W).Counted(stamp, l.W)
}

func (c *counter) rewind(w, now int64) { c.Counter = c.Rewind(now, w) }

func (c *counter) charge(w, _, stamp, cost int64) {
	c.Counter = c.At(stamp, w)
	c.Cur += cost
}

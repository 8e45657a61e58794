package storetest

import (
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// model is one client under one rule, by the arithmetic alone.
type model struct {
	logs     map[string]*window.Log
	counters map[string]*window.Counter
}

// decide is what a store must answer at the given time of its clock.
func (m *model) decide(limits []core.Limit, at time.Time, cost int64, charge bool) core.Decision {
	if m.logs == nil {
		m.logs, m.counters = map[string]*window.Log{}, map[string]*window.Counter{}
	}
	now := at.UnixMicro()
	stamp := now
	for _, l := range limits {
		if m.logs[l.Window.String()] == nil {
			m.logs[l.Window.String()], m.counters[l.Window.String()] = new(window.Log), new(window.Counter)
		}
		stamp = max(stamp, m.logs[l.Window.String()].Newest(), m.counters[l.Window.String()].Start(l.Window.Microseconds()))
	}
	var best window.Verdict
	var binding core.Limit
	for i, l := range limits {
		limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		var v window.Verdict
		if l.Algorithm == core.SlidingLog {
			v = m.logs[l.Window.String()].Facts(limit, now, cost).Decide(limit, now, stamp, cost)
		} else {
			v = m.counters[l.Window.String()].At(stamp, limit.W).Decide(limit, now, stamp, cost)
		}
		if i == 0 || v.Binds(best) {
			best, binding = v, l
		}
	}
	if binding.Name == "" {
		binding.Name = binding.Window.String()
	}
	if charge && best.Admitted && cost > 0 {
		for _, l := range limits {
			w := l.Window.Microseconds()
			if l.Algorithm == core.SlidingLog {
				log := m.logs[l.Window.String()]
				log.Expire(now - w)
				log.Push(stamp, cost)
			} else {
				c := m.counters[l.Window.String()]
				*c = c.At(stamp, w)
				c.Cur += cost
			}
		}
	}
	d := core.Decision{
		Allowed:    best.Admitted,
		Limit:      binding,
		Remaining:  best.Remaining,
		ResetAfter: time.Duration(best.ResetAfter) * time.Microsecond,
		RetryAfter: time.Duration(best.RetryAfter) * time.Microsecond,
		At:         at,
	}
	if best.RetryAfter == window.Never {
		d.RetryAfter = core.Never
	}
	return d
}

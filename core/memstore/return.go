package memstore

import (
	"context"

	"github.com/sashlimit/sash/core"
)

// Return implements [core.Ledger]. It ignores the context: it waits for nothing. The
// units of an evicted client stay in the sketch, where other clients may depend on them.
func (c *ledger) Return(_ context.Context, back core.Refund) (int64, error) {
	if back.Limits != nil {
		c = c.with(&core.Override{Limits: back.Limits})
	}
	h := c.store.hash(back.Key)
	sh := c.store.shard(h)
	now := c.store.lock(sh)
	defer sh.mu.Unlock()
	units := back.Units
	for i := range c.limits {
		l := &c.limits[i]
		switch s := sh.find(h, l.ident); {
		case s == nil && sh.sketch.estimate(&l.info, h, l.ident, now).IsZero():
		case s == nil, s.is(overrides) && !l.Algorithm.CanLease():
			units = 0 // the sketch does not know the time of its units
		default:
			units = min(units, s.count.Return(l.info.Limit, back.At.UnixMicro(), now, back.Cost, back.Units))
		}
	}
	return units, nil
}

package memstore

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Usage implements [core.Ledger]. It ignores the context: it waits for nothing. For a
// client without a slot it returns the sketch's estimate, which is never too low.
func (c *ledger) Usage(_ context.Context, key string) ([]core.Usage, error) {
	uses, all := make([]core.Usage, len(c.limits)), make([]clientState, len(c.limits))
	h := c.store.hash(key)
	sh := c.store.shard(h)
	r := request{hash: h, now: c.store.lock(sh)}
	defer sh.mu.Unlock()
	c.lookup(sh, &r, all)
	for i := range all {
		l := c.limits[i]
		l.info.Unlimited = true
		v := l.decide(&all[i], &r)
		uses[i] = core.Usage{
			Used: v.Units(), ResetAfter: window.Duration(v.ResetAfter), At: time.UnixMicro(r.now),
		}
	}
	return uses, nil
}

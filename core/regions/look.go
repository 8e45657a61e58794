package regions

import (
	"context"
	"sync"

	"github.com/sashlimit/sash/core"
)

// look looks at a client in this region and then in all others.
func (e *eventual) look(w *wish) {
	t := e.table
	defer t.end(w)
	ctx, cancel := context.WithTimeoutCause(context.Background(), silence, core.ErrTimeout)
	defer cancel()
	local, err := e.bound[e.here].whole.Usage(ctx, w.key)
	if err != nil {
		return
	}
	sent := e.now()
	t.mu.Lock()
	w.client.skew = local[0].At.Sub(e.epoch) - sent
	t.mu.Unlock()
	var group sync.WaitGroup
	for at, i := range e.order[1:] {
		region := e.regions[i]
		probes := region.silent(sent)
		if probes && !region.probing.CompareAndSwap(false, true) {
			continue // a silent region is asked one question at a time
		}
		group.Go(func() {
			uses, err := e.bound[i].whole.Usage(ctx, w.key)
			came := e.now()
			e.answered(region, err, sent, came)
			region.probing.CompareAndSwap(probes, false)
			if err == nil {
				t.learn(w.client, at, local, uses, look{sent: sent, came: came})
			}
		})
	}
	group.Wait()
}

// end ends a look, and tells those who wait for it.
func (t *table) end(w *wish) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.client.wish == w {
		w.client.wish = nil
	}
	if w.client = nil; w.done != nil {
		close(w.done)
	}
}

// learn learns what a look has found in the other region at that place, unless the answer to a later
// look has come before.
func (t *table) learn(c *client, at int, local, uses []core.Usage, found look) {
	t.mu.Lock()
	defer t.mu.Unlock()
	others := len(c.looks) / len(uses)
	for l, use := range uses {
		k := &c.looks[l*others+at]
		if found.sent < k.sent {
			continue
		}
		*k = found
		k.local, k.used = local[l].Used, use.Used
		if use.Used > 0 {
			k.leaves = k.came + use.ResetAfter
		}
	}
}

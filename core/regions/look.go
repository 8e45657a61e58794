package regions

import (
	"context"
	"sync"

	"github.com/sashlimit/sash/core"
)

// look looks at a client in this region and then in all others. Who waits for it does not wait for a region
// that is silent.
func (e *eventual) look(w *wish) {
	client := w.client
	ctx, cancel := context.WithTimeoutCause(context.Background(), silence, core.ErrTimeout)
	defer cancel()
	asked := e.now()
	local, err := e.bound[e.here].whole.Usage(ctx, w.key)
	sent := e.now()
	var awaited, probes sync.WaitGroup
	if err == nil {
		e.clock.read(local[0].At.Sub(e.epoch), asked, sent)
		for at, i := range e.order[1:] {
			region, group := e.regions[i], &awaited
			silent := region.silent(sent)
			if silent {
				if group = &probes; !region.probing.CompareAndSwap(false, true) {
					continue // a silent region is asked one question at a time
				}
			}
			group.Go(func() {
				uses, err := e.bound[i].whole.Usage(ctx, w.key)
				came := e.now()
				e.answered(region, err, sent, came)
				region.probing.CompareAndSwap(silent, false)
				if err == nil {
					e.table.learn(client, at, local, uses, look{sent: sent, came: came})
				}
			})
		}
	}
	awaited.Wait()
	e.table.end(w)
	probes.Wait()
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

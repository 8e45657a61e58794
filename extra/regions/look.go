package regions

import (
	"context"
	"sync"

	"github.com/sashlimit/sash/core"
)

// look looks at a client in this region and then in all others. It is over when all have answered but the silent ones.
func (r *rule) look(w *wish) {
	client, s := w.client, r.store
	ctx, cancel := context.WithTimeoutCause(context.Background(), silence, core.ErrTimeout)
	defer cancel()
	asked := s.now()
	local, err := r.ledgers[s.here].whole.Usage(ctx, w.key)
	sent := s.now()
	var awaited, probes sync.WaitGroup
	if err == nil {
		s.clock.read(local[0].At.Sub(s.epoch), asked, sent)
		for at, i := range r.order[1:] {
			region, group := s.regions[i], &awaited
			silent := region.silent(sent)
			if silent {
				if group = &probes; !region.probing.CompareAndSwap(false, true) {
					continue // a silent region is asked one question at a time
				}
			}
			group.Go(func() {
				uses, err := r.ledgers[i].whole.Usage(ctx, w.key)
				came := s.now()
				r.answered(region, err, sent, came)
				region.probing.CompareAndSwap(silent, false)
				if err == nil {
					s.table.learn(client, at, local, uses, look{sent: sent, came: came})
				}
			})
		}
	}
	awaited.Wait()
	s.table.end(w)
	probes.Wait()
}

// end ends a look, and wakes the requests that wait for it.
func (t *table) end(w *wish) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.client.wish == w {
		w.client.wish = nil
	}
	if w.done != nil {
		close(w.done)
	}
}

// learn keeps what a look has found in the other region at that place, unless the table has the answer to a later look.
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

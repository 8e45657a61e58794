package regions

import (
	"context"
	"sync"

	"github.com/sashlimit/sash/core"
)

// runPoll reads the usage of a client in the local region and then in all others. The poll ends when all regions that
// are not silent have answered.
func (r *rule) runPoll(w *poll) {
	client, s := w.client, r.store
	ctx, cancel := context.WithTimeoutCause(context.Background(), silentAfter, core.ErrTimeout)
	defer cancel()
	start := s.now()
	localUsed, err := r.remotes[s.local].whole.Usage(ctx, w.key)
	sent := s.now()
	var required, probes sync.WaitGroup
	if err == nil {
		s.clock.read(localUsed[0].At.Sub(s.epoch), start, sent)
		for at, i := range r.order[1:] {
			region, group := s.regions[i], &required
			silent := region.silent(sent)
			if silent {
				if group = &probes; !region.probing.CompareAndSwap(false, true) {
					continue // one probe of a silent region at a time
				}
			}
			group.Go(func() {
				uses, err := r.remotes[i].whole.Usage(ctx, w.key)
				received := s.now()
				r.recordAnswer(region, err, sent, received)
				region.probing.CompareAndSwap(silent, false)
				if err == nil {
					s.table.update(client, at, localUsed, uses, usage{sent: sent, received: received})
				}
			})
		}
	}
	required.Wait()
	s.table.finish(w)
	probes.Wait()
}

// finish ends a poll and wakes the requests that wait for it.
func (t *table) finish(w *poll) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.client.poll == w {
		w.client.poll = nil
	}
	if w.done != nil {
		close(w.done)
	}
}

// update stores the usage in the other region at index at, unless the table has the answer to a later poll.
func (t *table) update(c *client, at int, localUsed, uses []core.Usage, found usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	others := len(c.usages) / len(uses)
	for l, use := range uses {
		k := &c.usages[l*others+at]
		if found.sent < k.sent {
			continue
		}
		*k = found
		k.localUsed, k.used = localUsed[l].Used, use.Used
		if use.Used > 0 {
			k.nextExpiry = k.received + use.ResetAfter
		}
	}
}

package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/storetest"
)

// history records the answers that processes got, and the times at which they used them.
type history struct {
	server      *fakeserver.Server
	longest     time.Duration // lease
	mu          sync.Mutex
	byUse       []storetest.Outcome // by when it was used, on the server's clock
	byAt        []storetest.Outcome // by Decision.At
	refused     []fakeserver.Charge // when, and what
	local       int
	wrongSource int // of the decisions, those that say wrongly whether the server made them
	failures    int
}

// take asks once and writes down the outcome.
func (h *history) take(ctx context.Context, c core.Ledger, cost int64) core.Decision {
	var ran atomic.Int64
	d := c.Take(fakeserver.WithRan(ctx, &ran), core.Ask{Key: "client", Cost: cost})
	at := ran.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case d.Err != nil:
		h.failures++
		return d
	case at == 0: // without asking
		at = h.server.Now()
		h.local++
		if d.Source != core.SourceLeased {
			h.wrongSource++
		}
	case d.Source != core.SourceCounted:
		h.wrongSource++
	}
	if d.Allowed {
		h.byUse = append(h.byUse, storetest.Outcome{At: time.UnixMicro(at), Allowed: true, Cost: cost})
		h.byAt = append(h.byAt, storetest.Outcome{At: d.At, Allowed: true, Cost: cost})
	} else {
		h.refused = append(h.refused, fakeserver.Charge{Taken: at, Units: cost})
	}
	return d
}

// check holds a history against the promise. It waits for the scripts of callers that have left.
func (h *history) check() error {
	synctest.Wait()
	if h.wrongSource > 0 {
		return fmt.Errorf("%d decisions say wrongly whether they are from a lease", h.wrongSource)
	}
	if err := storetest.CheckLogs(h.byUse, h.server.Limits...); err != nil {
		return fmt.Errorf("by the time of use: %w", err)
	}
	if err := storetest.CheckLogs(h.byAt, h.server.Limits...); err != nil {
		return fmt.Errorf("by Decision.At: %w", err)
	}
	for _, r := range h.refused {
		justified := false
		for _, l := range h.server.Limits {
			// What was taken is what was admitted, and what has not been spent.
			taken := int64(0)
			for _, c := range h.server.Charges {
				if c.Taken <= r.Taken && c.Taken > r.Taken-(l.Window+h.longest).Microseconds() {
					taken += c.Units
				}
			}
			justified = justified || taken+r.Units > l.Requests
		}
		if !justified {
			return fmt.Errorf("a cost of %d was refused at %d, too early", r.Units, r.Taken)
		}
	}
	return nil
}

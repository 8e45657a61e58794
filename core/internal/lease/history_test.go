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

// history is what processes were told, and when they acted on it.
type history struct {
	server   *fakeserver.Server
	longest  time.Duration // lease
	mu       sync.Mutex
	used     []storetest.Outcome // by when it was used, on the server's clock
	told     []storetest.Outcome // by Decision.At
	refused  []fakeserver.Charge // when, and what
	local    int
	unsaid   int // of the decisions, those that say wrongly whether the server made them
	failures int
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
			h.unsaid++
		}
	case d.Source != core.SourceCounted:
		h.unsaid++
	}
	if d.Allowed {
		h.used = append(h.used, storetest.Outcome{At: time.UnixMicro(at), Allowed: true, Cost: cost})
		h.told = append(h.told, storetest.Outcome{At: d.At, Allowed: true, Cost: cost})
	} else {
		h.refused = append(h.refused, fakeserver.Charge{Taken: at, Units: cost})
	}
	return d
}

// check holds a history against the promise. It waits for the scripts of callers that have left.
func (h *history) check() error {
	synctest.Wait()
	if h.unsaid > 0 {
		return fmt.Errorf("%d decisions say wrongly whether they are from a lease", h.unsaid)
	}
	if err := storetest.CheckLogs(h.used, h.server.Limits...); err != nil {
		return fmt.Errorf("by the time of use: %w", err)
	}
	if err := storetest.CheckLogs(h.told, h.server.Limits...); err != nil {
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

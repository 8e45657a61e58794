package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// bare is a store without the links in front of Redis.
type bare struct{ *Store }

func (s bare) Bind(rule core.Binding) (core.Ledger, error) { return s.newLedger(rule), nil }

// TestConformanceBare: the last link is a store by itself.
func TestConformanceBare(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	storetest.Run(t, func(*testing.T) core.Store { return bare{New(rdb)} })
}

// asking returns a request as Redis gets it, with no deadline.
func asking(l *ledger, key string, cost int64, charge bool) request {
	return request{Ask: core.Ask{Key: key, Cost: cost, Peek: !charge}, ledger: l}
}

// askAlone has the script decide one request.
func (l *ledger) askAlone(
	ctx context.Context, deadline time.Time, key string, cost int64, charge bool,
) (core.Decision, error) {
	q := asking(l, key, cost, charge)
	q.deadline = deadline
	return q.alone(ctx)
}

// ahead returns l with requests counted so far ahead, as a lease takes them.
func ahead(l *ledger, by time.Duration) *ledger { return l.with(l.rule.Limits, by) }

package redisstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// ledger is what the load of TestChaos has charged and given back of a few clients, as far as
// it has been told.
type ledger struct {
	limiter *core.Limiter
	clients [chaosKeys]struct{ charged, returned, maybeCharged, maybeReturned atomic.Int64 }
}

const ledgerLimit = core.MaxLogRequests

func newLedger(t *testing.T, store core.Store) *ledger {
	return &ledger{limiter: limiter(t, core.Config{
		Name: "ledger", Store: store, Limits: []core.Limit{core.Per(ledgerLimit, time.Hour)},
		OnStoreError: core.FailClosed, Timeout: chaosTimeout,
	})}
}

// step charges a unit, or reserves one and gives it back.
func (l *ledger) step(rng *rand.Rand) {
	i := rng.IntN(chaosKeys)
	client := &l.clients[i]
	r := core.Request{Key: fmt.Sprint(i), Cost: 1, Charge: rng.IntN(3) == 0}
	one := l.limiter.Reserve(ctx, r)
	if err := one.Decision.Err; err != nil {
		if mayBeSent(err) {
			client.maybeCharged.Add(1)
		}
		return
	}
	client.charged.Add(1)
	if r.Charge {
		return
	}
	n, err := one.Return(ctx, 1)
	client.returned.Add(n)
	if err != nil && mayBeSent(err) {
		client.maybeReturned.Add(1)
	}
}

// mayBeSent reports whether a request that failed with err may have been sent.
func mayBeSent(err error) bool {
	return !errors.Is(err, core.ErrUnavailable) || core.StageOf(err) == core.StageReply
}

// audit returns how many units too many the store counts, which were charged twice, and how
// many too few, which were given back twice.
func (l *ledger) audit(t *testing.T) (tooMany, tooFew int64) {
	for i := range l.clients {
		client := &l.clients[i]
		var d core.Decision
		redistest.WaitFor(t, "the count of a client", func() error {
			d = l.limiter.AllowN(ctx, fmt.Sprint(i), 0)
			return d.Err
		})
		counted := ledgerLimit - d.Remaining
		told := client.charged.Load() - client.returned.Load()
		tooMany += max(0, counted-told-client.maybeCharged.Load())
		tooFew += max(0, told-client.maybeReturned.Load()-counted)
	}
	return tooMany, tooFew
}

// String says how many units were charged and given back.
func (l *ledger) String() string {
	var charged, returned, maybeCharged, maybeReturned int64
	for i := range l.clients {
		client := &l.clients[i]
		charged += client.charged.Load()
		returned += client.returned.Load()
		maybeCharged += client.maybeCharged.Load()
		maybeReturned += client.maybeReturned.Load()
	}
	return fmt.Sprintf("%d charged and %d perhaps, %d given back and %d perhaps",
		charged, maybeCharged, returned, maybeReturned)
}

package nethttp

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
)

// Admission is an admitted request whose cost may still change. A handler gets it by
// [FromContext]. It is safe for concurrent use, also after the handler has returned.
type Admission struct {
	decider     *Decider
	reservation *core.Reservation
	request     *http.Request // as the handler gets it; set before the handler runs
	underway    string        // the key in the decider's set; empty if the request is not in it
	settled     atomic.Bool   // Settle was called, so units may be free
}

// reserve decides the request, which is to be settled afterwards. If CountWhen may give its units back, so may it those
// of others that fill the limit, and the request waits for them a moment.
func (a *Admission) reserve(ctx context.Context, l *core.Limiter, request core.Request) {
	reserve := func() *core.Reservation { return l.Reserve(ctx, request) }
	if a.decider.countWhen == nil || request.Shadow {
		a.reservation = reserve()
		return
	}
	if a.reservation = a.decider.underway.Reserve(ctx, request.Key, reserve); a.reservation.Decision.Allowed {
		a.underway = request.Key
	}
}

// done takes the request out of the decider's set.
func (a *Admission) done() {
	if a.underway != "" {
		a.decider.underway.Done(a.underway, a.settled.Load())
	}
}

// admissionKey is the key of the context value that FromContext returns.
type admissionKey struct{}

// FromContext returns the Admission of the request that a handler serves, by the innermost
// guard with [WithDecisionInContext] that the request has passed. ok is false if there is
// none: the guards have no such option, or have skipped the request.
func FromContext(ctx context.Context) (a *Admission, ok bool) {
	a, ok = ctx.Value(admissionKey{}).(*Admission)
	return a, ok
}

// Decision returns the decision that admitted the request. While the store cannot be asked
// it has no numbers; see [core.Decision].
func (a *Admission) Decision() core.Decision { return a.reservation.Decision }

// Settle makes the request cost what it has really cost, as [core.Reservation.Settle]
// does: it gives the rest of the estimate back, or counts the excess, even beyond the
// limit. It works once, also after the handler has returned and the request's context has
// ended; what [CountWhen] and [CostAfter] say after it does not count.
func (a *Admission) Settle(ctx context.Context, cost int64) error {
	defer a.settled.Store(true)
	return a.reservation.Settle(ctx, cost)
}

// Return is Settle with a cost of 0: the request does not count.
func (a *Admission) Return(ctx context.Context) error { return a.Settle(ctx, 0) }

package nethttp

import (
	"context"
	"errors"
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
	settled     atomic.Bool
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

var errSettled = errors.New("sash: the request is settled already: call Settle or Return once")

// Settle makes the request cost what it has really cost, as [core.Reservation.Settle]
// does: it gives the rest of the estimate back, or counts the excess, even beyond the
// limit. A cost above [core.MaxCounterRequests] counts as that.
//
// It works once, also after the handler has returned; after it, [CountWhen] and
// [CostAfter] are not asked about the request. A ctx that has ended does not stop it:
// Config.Timeout bounds it. After an error the estimate may stay counted. The error
// matches [core.ErrStore], or [core.ErrInvalid] if cost is negative; then nothing is
// settled.
func (a *Admission) Settle(ctx context.Context, cost int64) error {
	if cost >= 0 && !a.settled.CompareAndSwap(false, true) {
		return errSettled
	}
	return a.reservation.Settle(context.WithoutCancel(ctx), min(cost, core.MaxCounterRequests))
}

// Return is Settle with a cost of 0: the request does not count.
func (a *Admission) Return(ctx context.Context) error { return a.Settle(ctx, 0) }

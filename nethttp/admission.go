package nethttp

import (
	"context"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Admission is an admitted request whose cost may still change. A handler gets it by
// [FromContext]. It is safe for concurrent use, also after the handler has returned.
type Admission guard.Admission

// FromContext returns the Admission of the request that a handler serves, by the innermost
// guard with [WithDecisionInContext] that the request has passed. ok is false if there is
// none: the guards have no such option, or have skipped the request.
func FromContext(ctx context.Context) (a *Admission, ok bool) {
	found, ok := ctx.Value(guard.AdmissionKey{}).(*guard.Admission)
	return (*Admission)(found), ok
}

// Decision returns the decision that admitted the request. While the store fails
// it has no numbers; see [core.Decision].
func (a *Admission) Decision() core.Decision { return (*guard.Admission)(a).Decision() }

// Settle makes the request cost what it has really cost, as [core.Reservation.Settle]
// does: it gives the rest of the estimate back, or counts the excess, even beyond the
// limit. It works once, also after the handler has returned and the request's context has
// ended. The functions of [CountWhen] and [CostAfter] are not called after it.
func (a *Admission) Settle(ctx context.Context, cost int64) error {
	return (*guard.Admission)(a).Settle(ctx, cost)
}

// Return is Settle with a cost of 0: the request does not count.
func (a *Admission) Return(ctx context.Context) error { return a.Settle(ctx, 0) }

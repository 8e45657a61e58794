package nethttp

import (
	"context"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Admission is a request at its handler, whose cost can change until it is settled. The handler gets it by
// [FromContext]. It is safe for concurrent use, also after the handler has returned.
type Admission guard.Admission

// FromContext returns the Admission of a handler's request, by the innermost guard with [WithDecisionInContext] that
// has a key for the request and has not skipped it. ok is false if there is none.
func FromContext(ctx context.Context) (a *Admission, ok bool) {
	admission, ok := ctx.Value(guard.AdmissionKey{}).(*guard.Admission)
	return (*Admission)(admission), ok
}

// Decision returns the limiter's decision. Under [Shadow] it may be a refusal. While the store fails it has no numbers;
// see [core.Decision].
func (a *Admission) Decision() core.Decision { return (*guard.Admission)(a).Decision() }

// Settle sets the real cost of the request, as [core.Reservation.Settle] does: it gives the remainder of the estimate
// back, or counts the excess, even beyond the limit. Only the first call with a cost of 0 or more has an effect, also
// after the handler has returned and the request's context has ended. The functions of [CountWhen] and [CostAfter] are
// not called after it.
func (a *Admission) Settle(ctx context.Context, cost int64) error {
	return (*guard.Admission)(a).Settle(ctx, cost)
}

// Return is [Admission.Settle] with a cost of 0.
func (a *Admission) Return(ctx context.Context) error { return a.Settle(ctx, 0) }

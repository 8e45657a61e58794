package guard

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/inflight"
)

// Admission is a request at its handler, whose cost may still change. With CountWhen or CostAfter it is settled after
// the handler.
type Admission struct {
	guard       *Guard
	reservation *core.Reservation
	request     *http.Request // as the handler gets it; set before the handler runs
	inflightKey string        // the key in the guard's set; empty for a request outside the set
	settled     atomic.Bool   // Settle was called, so units may be free
	recorder    recorder      // of the response, if an option needs it
	failed      atomic.Bool   // the handler has returned an error without an answer so far
	answerTimer *time.Timer   // bounds the wait for the answer to the error
	doneOnce    sync.Once
}

// reserve decides the request and reserves its units. With CountWhen, a refused request waits for units of requests in
// flight, which may be given back.
func (a *Admission) reserve(l *core.Limiter, request *core.Request) {
	ctx := a.request.Context()
	if a.guard.config.CountWhen == nil || request.Shadow {
		a.reservation = l.Reserve(ctx, *request)
		return
	}
	if a.reservation = a.guard.inflight.Reserve(ctx, l, *request); a.reservation.Decision.Allowed {
		a.inflightKey = request.Key
	}
}

// done removes the request from the guard's set.
func (a *Admission) done() {
	a.doneOnce.Do(func() {
		if a.inflightKey != "" {
			a.guard.inflight.Done(a.inflightKey, a.settled.Load())
		}
	})
}

// AdmissionKey is the key of the context value that nethttp.FromContext returns.
type AdmissionKey struct{}

// Decision returns the limiter's decision. In shadow it may be a refusal.
func (a *Admission) Decision() core.Decision { return a.reservation.Decision }

// Settle sets the real cost of the request. Only the first call with a cost of 0 or more has an effect.
func (a *Admission) Settle(ctx context.Context, cost int64) error {
	if cost >= 0 { // a negative one settles nothing
		defer a.settled.Store(true)
	}
	return a.reservation.Settle(ctx, cost)
}

// serve calls next with the ResponseWriter and the request of the handler, and settles the request afterwards, also if
// next panics. If next returns an error without a response, the request is settled with the status of the answer, for
// which beforeSend registers a function. It stays counted if beforeSend is nil, or if no answer is sent.
func (a *Admission) serve(w http.ResponseWriter, next func(http.ResponseWriter, *http.Request) error,
	beforeSend func(settle func(status int))) error {
	c := &a.guard.config
	if c.DecisionInContext {
		outer := a.request
		a.request = outer.WithContext(context.WithValue(outer.Context(), AdmissionKey{}, a))
		defer a.update(outer)
	}
	if !c.needsResponse() {
		return next(w, a.request)
	}
	if beforeSend != nil {
		beforeSend(a.settleError)
	}
	panicked, failed := true, false
	defer func() {
		if failed {
			return
		}
		defer a.done()
		if status, known := a.recorder.finalStatus(panicked, a.request.Context().Err() != nil); known {
			a.settle(status)
		}
	}()
	err := next(a.recorder.wrap(w), a.request)
	panicked = false
	if failed = err != nil && !a.recorder.started(); failed {
		a.fail(err, beforeSend != nil)
	}
	return err
}

// update copies the pattern, the path values and the forms that a handler has set from a.request to outer, the request
// of outer middleware and the server. After a timeout it copies nothing, since outer may be read already.
func (a *Admission) update(outer *http.Request) {
	if ctx := outer.Context(); ctx.Err() != context.DeadlineExceeded {
		*outer = *a.request.WithContext(ctx)
	}
}

// fail ends a request whose handler has returned err. It leaves the request to settleError if mayAnswer is true, unless
// the client has left. Other requests of the client wait for the answer no longer than a RetryInterval, since an error
// may stay without one.
func (a *Admission) fail(err error, mayAnswer bool) {
	left := errors.Is(a.request.Context().Err(), context.Canceled) && errors.Is(err, context.Canceled)
	if left || !mayAnswer {
		a.done()
		return
	}
	a.answerTimer = time.AfterFunc(inflight.RetryInterval, a.done)
	a.failed.Store(true)
}

// settleError settles a request whose handler has returned an error, with the status of the answer.
func (a *Admission) settleError(status int) {
	if a.failed.CompareAndSwap(true, false) {
		a.answerTimer.Stop()
		defer a.done()
		a.settle(status)
	}
}

// settle settles the request by the function of CountWhen or CostAfter, unless the handler has settled it. If the store
// fails, the units stay counted.
func (a *Admission) settle(status int) {
	r, c := a.request, &a.guard.config
	if a.settled.Load() {
		return
	}
	cost := 0
	if c.CostAfter != nil {
		_, _, size := a.recorder.sent()
		if r.Method == http.MethodHead {
			size = 0 // the server drops the body
		}
		cost = c.CostAfter(r, status, size)
	} else if c.CountWhen(r, status) {
		return
	}
	_ = a.Settle(r.Context(), int64(cost))
}

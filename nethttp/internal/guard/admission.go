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

// Admission is an admitted request that may still cost more or less. It is settled after the handler.
type Admission struct {
	decider     *Decider
	reservation *core.Reservation
	request     *http.Request // as the handler gets it; set before the handler runs
	underway    string        // the key in the decider's set; empty if the request is not in it
	settled     atomic.Bool   // Settle has taken its one effect, so units may be free
	recorder    recorder      // of the response, if an option looks at it
	failed      atomic.Bool   // the handler has returned an error that is still to be answered
	waiting     *time.Timer   // ends the wait for that answer
	ended       sync.Once     // done was called
}

// reserve decides the request, which is to be settled afterwards. With CountWhen, requests that fill the limit may give
// their units back, and this one waits for them a moment.
func (a *Admission) reserve(l *core.Limiter, request *core.Request) {
	ctx := a.request.Context()
	if a.decider.config.CountWhen == nil || request.Shadow {
		a.reservation = l.Reserve(ctx, *request)
		return
	}
	if a.reservation = a.decider.underway.Ask(ctx, l, *request); a.reservation.Decision.Allowed {
		a.underway = request.Key
	}
}

// done takes the request out of the decider's set.
func (a *Admission) done() {
	a.ended.Do(func() {
		if a.underway != "" {
			a.decider.underway.Done(a.underway, a.settled.Load())
		}
	})
}

// AdmissionKey is the key of the context value that nethttp.FromContext returns.
type AdmissionKey struct{}

// Decision returns the decision that admitted the request.
func (a *Admission) Decision() core.Decision { return a.reservation.Decision }

// Settle makes the request cost what it has really cost, once.
func (a *Admission) Settle(ctx context.Context, cost int64) error {
	if cost >= 0 { // a negative one settles nothing
		defer a.settled.Store(true)
	}
	return a.reservation.Settle(ctx, cost)
}

// follow calls next with what the handler is to get, and settles the request afterwards, also if next panics. If next
// returns an error and a response has not begun, the request is settled when whenSent tells the status of the answer.
// It stays counted if whenSent is nil, or none is ever told.
func (a *Admission) follow(w http.ResponseWriter, next func(http.ResponseWriter, *http.Request) error,
	whenSent func(then func(status int))) error {
	c := &a.decider.config
	if c.InContext {
		outer := a.request
		a.request = outer.WithContext(context.WithValue(outer.Context(), AdmissionKey{}, a))
		defer a.update(outer)
	}
	if !c.looks() {
		return next(w, a.request)
	}
	if whenSent != nil {
		whenSent(a.sent)
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
	err := next(a.recorder.around(w), a.request)
	panicked = false
	if failed = err != nil && !a.recorder.begun(); failed {
		a.fail(whenSent != nil && !a.left(err))
	}
	return err
}

// update gives outer, of which a.request is a copy, the pattern, the path values and the forms that a handler has set:
// middleware outside and the server look there. After a timeout, they may do so by now.
func (a *Admission) update(outer *http.Request) {
	if ctx := outer.Context(); ctx.Err() != context.DeadlineExceeded {
		*outer = *a.request.WithContext(ctx)
	}
}

// left reports whether err says that the client has left.
func (a *Admission) left(err error) bool {
	return errors.Is(a.request.Context().Err(), context.Canceled) && errors.Is(err, context.Canceled)
}

// fail leaves the request to sent if the answer to its error is going to be told, and keeps it counted else. An error
// may stay without an answer: requests of the client wait a moment for it at most.
func (a *Admission) fail(told bool) {
	if !told {
		a.done()
		return
	}
	a.waiting = time.AfterFunc(inflight.Moment, a.done)
	a.failed.Store(true)
}

// sent settles a request whose handler has returned an error, when the status of the answer is sent.
func (a *Admission) sent(status int) {
	if a.failed.CompareAndSwap(true, false) {
		a.waiting.Stop()
		defer a.done()
		a.settle(status)
	}
}

// settle settles the request as the function of CountWhen or CostAfter says. If the handler has done so, or the store
// fails, the units stay counted.
func (a *Admission) settle(status int) {
	r, c := a.request, &a.decider.config
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

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// attempt is one call to a server, for a batch. It lasts until its deadline, even if all callers leave before:
// otherwise impatient callers would never open the server's breaker, or never close it. The breaker gets one result.
//
// A server that is silent, with a timeout of 100 ms:
//
//	   0 ms  the batch is sent
//	  20 ms  the queue presumes that it is lost, and gives its slot to another batch
//	 100 ms  the callers get ErrLate: of the queue's timer, or since the connection has the same deadline;
//	         failTimer reports a failure to the breaker, which opens after the fifth in a row
//	+100 ms  the next request is a probe of the breaker, for 5 s at most; other requests do not wait
type attempt struct {
	ctx        context.Context      // without the cancellation of the first caller; ends at the deadline
	cluster    *redis.ClusterClient // or nil
	breaker    *breaker
	generation uint64 // of the breaker
	cancel     context.CancelFunc
	failTimer  *time.Timer // nil: the server has no deadline
	reported   atomic.Bool
}

// newAttempt starts a call to a server. ctx gives the values of its context. At failAt, if there is no result by then,
// the breaker counts a failure; at the deadline the call ends. Zero times are never.
func (t *transport) newAttempt(
	ctx context.Context, b *breaker, generation uint64, failAt, deadline time.Time,
) *attempt {
	a := &attempt{cluster: t.cluster, breaker: b, generation: generation}
	if ctx = context.WithoutCancel(ctx); deadline.IsZero() {
		a.ctx, a.cancel = context.WithCancel(ctx)
	} else {
		a.ctx, a.cancel = context.WithDeadlineCause(ctx, deadline, ErrLate)
	}
	if !failAt.IsZero() {
		a.failTimer = time.AfterFunc(time.Until(failAt), func() { a.report(ErrLate) })
	}
	return a
}

// report gives the breaker the first result of the call. Later ones, of commands that are sent again, are ignored.
func (a *attempt) report(err error) {
	if !a.reported.CompareAndSwap(false, true) {
		return
	}
	a.breaker.report(a.generation, err)
	if a.cluster != nil && IsFailure(err) {
		// The master may have been replaced. go-redis learns of that only from servers that answer.
		a.cluster.ReloadState(context.Background())
	}
}

// end ends the call, and reports whether that was before its deadline.
func (a *attempt) end() (inTime bool) {
	if a.failTimer != nil {
		a.failTimer.Stop()
	}
	inTime = a.ctx.Err() == nil
	a.cancel()
	return inTime
}

// hint returns err with a hint for the operator, or ErrLate for an error of the connection once the deadline has
// passed: the connection has the same deadline, and may be the first to notice.
func (a *attempt) hint(err error) error {
	deadline, ok := a.ctx.Deadline()
	switch {
	case IsReply(err):
	case ok && !time.Now().Before(deadline):
		return ErrLate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // words that say too little in a log
		return fmt.Errorf("sash: the connection to Redis broke: %w", err)
	}
	return withHint(err)
}

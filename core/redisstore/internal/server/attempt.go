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

// attempt is one call to a server, for a batch, and the context of that call. It lasts until its deadline, even if all
// callers leave before: otherwise impatient callers would never open the server's breaker, or never close it. The
// breaker gets one result of it.
type attempt struct {
	context.Context
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
	a := &attempt{Context: context.WithoutCancel(ctx), cluster: t.cluster, breaker: b, generation: generation}
	if deadline.IsZero() {
		a.Context, a.cancel = context.WithCancel(a.Context)
	} else {
		a.Context, a.cancel = context.WithDeadlineCause(a.Context, deadline, ErrLate)
	}
	if !failAt.IsZero() {
		a.failTimer = time.AfterFunc(time.Until(failAt), func() { a.report(ErrLate) })
	}
	return a
}

// report gives the breaker the result of the call, unless it has one.
func (a *attempt) report(err error) {
	if !a.reported.CompareAndSwap(false, true) {
		return
	}
	a.breaker.report(a.generation, err)
	if a.cluster != nil && err != nil && IsFailure(err) && !isCaller(err) {
		// The master may have been replaced. go-redis learns of that only from servers that answer.
		a.cluster.ReloadState(context.Background())
	}
}

// end ends the call, and reports whether that was before its deadline.
func (a *attempt) end() (inTime bool) {
	if a.failTimer != nil {
		a.failTimer.Stop()
	}
	inTime = a.Err() == nil
	a.cancel()
	return inTime
}

// hint returns err with a hint for the operator, or ErrLate for an error of the connection once the deadline has
// passed: the connection has the same deadline, and may be the first to notice.
func (a *attempt) hint(err error) error {
	deadline, ok := a.Deadline()
	switch {
	case IsReply(err):
	case ok && !time.Now().Before(deadline):
		return ErrLate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // words that say too little in a log
		return fmt.Errorf("sash: the connection to Redis broke: %w", err)
	}
	return withHint(err)
}

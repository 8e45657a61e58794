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
	context.Context                      // of the first caller, without its cancellation
	cluster         *redis.ClusterClient // or nil
	breaker         *breaker
	generation      uint64        // of the breaker
	deadline        time.Time     // zero: none
	done            chan struct{} // closed at the deadline
	failTimer       *time.Timer   // nil: the server has no deadline
	reported        atomic.Bool
}

// newAttempt starts a call to a server, whose context has the values of ctx. At failAt, if there is no result by then,
// the breaker counts a failure; at the deadline the call ends. Zero times are never.
func (t *transport) newAttempt(
	ctx context.Context, b *breaker, generation uint64, failAt, deadline time.Time,
) *attempt {
	a := &attempt{
		Context: context.WithoutCancel(ctx), cluster: t.cluster, breaker: b, generation: generation,
		deadline: deadline, done: make(chan struct{}),
	}
	if !failAt.IsZero() {
		a.failTimer = time.AfterFunc(time.Until(failAt), a.fail)
	}
	return a
}

// fail counts a failure. The deadline is not before failAt, so a call in time needs one timer.
func (a *attempt) fail() {
	a.report(ErrLate)
	if !a.deadline.IsZero() {
		time.AfterFunc(time.Until(a.deadline), func() { close(a.done) })
	}
}

// Deadline implements [context.Context].
func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, !a.deadline.IsZero() }

// Done implements [context.Context].
func (a *attempt) Done() <-chan struct{} { return a.done }

// Err implements [context.Context].
func (a *attempt) Err() error {
	if a.deadline.IsZero() || time.Now().Before(a.deadline) {
		return nil
	}
	return context.DeadlineExceeded
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
	return a.Err() == nil
}

// hint returns err with a hint for the operator, or ErrLate for an error of the connection once the deadline has
// passed: the connection has the same deadline, and may be the first to notice.
func (a *attempt) hint(err error) error {
	switch {
	case IsReply(err):
	case a.Err() != nil:
		return ErrLate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // words that say too little in a log
		return fmt.Errorf("sash: the connection to Redis broke: %w", err)
	}
	return withHint(err)
}

package batch

import (
	"context"
	"sync/atomic"
	"time"
)

// Call is a request that waits for its answer. Its fields do not change while Serve has the call.
type Call[Q, A any] struct {
	Context  context.Context
	Deadline time.Time // zero: none
	Request  Q

	// settled is set by the server, the timer or a caller that leaves. The first of them counts: the server or the
	// timer writes answer and err, and sends to done.
	settled atomic.Bool
	answer  A
	err     error
	done    chan struct{} // has room for one, so that the sender never waits

	inline bool        // the caller serves the call itself, as a batch of one
	own    batch[Q, A] // that batch, reused with the call
}

// NewCall returns a call that no caller waits for. Its answer is discarded.
func NewCall[Q, A any](ctx context.Context, deadline time.Time, request Q) *Call[Q, A] {
	return &Call[Q, A]{Context: ctx, Deadline: deadline, Request: request, done: make(chan struct{}, 1)}
}

// Answer gives the caller its answer, unless the caller has left or the deadline has passed. It may be called from any
// goroutine, also after Serve has returned. After Answer the call belongs to the queue, which reuses it.
func (c *Call[Q, A]) Answer(answer A, err error) {
	if c.settled.CompareAndSwap(false, true) {
		c.answer, c.err = answer, err
		c.done <- struct{}{}
	}
}

// expired reports whether the call's deadline has passed.
func (c *Call[Q, A]) expired(now time.Time) bool {
	return !c.Deadline.IsZero() && !c.Deadline.After(now)
}

// wait waits until the call is answered, its deadline has passed or its context has ended.
func (q *Queue[Q, A]) wait(c *Call[Q, A]) (A, error) {
	if canceled := c.Context.Done(); canceled == nil {
		<-c.done // without the cost of a select
	} else {
		select {
		case <-c.done:
		case <-canceled:
			if c.settled.CompareAndSwap(false, true) {
				return *new(A), q.config.ErrCanceled(c.Context)
			}
			<-c.done // the server was first: its answer counts
		}
	}
	if c.err != nil { // the call may have expired while Serve still has it
		return c.answer, c.err
	}
	answer := c.answer
	c.Context, c.Request, c.answer = nil, *new(Q), *new(A) // keep nothing alive
	q.calls.Put(c)
	return answer, nil
}

package gather

import (
	"context"
	"sync/atomic"
	"time"
)

// Call is a request that waits for its answer. Its fields are not changed while Serve has the call.
type Call[Q, A any] struct {
	Context  context.Context
	Deadline time.Time // the zero time is none
	Request  Q

	queue *Queue[Q, A]

	// settled is set by the goroutine that decides the outcome: the server's, the timer's or the caller's. The first
	// of them wins, and it alone writes what follows and sends to done (TestAnswers).
	settled atomic.Bool
	answer  A
	err     error
	done    chan struct{} // has room for one, so that the sender never waits (TestInline)

	inline bool        // the caller serves the call itself, as a batch of one
	own    batch[Q, A] // that batch: it is used again with the call
}

// Answer gives the caller its answer, unless the caller has left or the deadline has passed. It may be called from any
// goroutine, also after Serve has returned. It must be the last thing done with the call: the call is used again.
func (c *Call[Q, A]) Answer(answer A, err error) {
	if c.settled.CompareAndSwap(false, true) {
		c.answer, c.err = answer, err
		c.done <- struct{}{}
	}
}

// Inline reports whether the caller serves the call itself.
func (c *Call[Q, A]) Inline() bool { return c.inline }

// Hold notes that the batch with c at its head waits for a connection, and returns how many other calls wait. They
// go together when the batch has been sent: until then, or until a time at most, none is begun, and this one is not
// presumed lost (TestHeld).
func (c *Call[Q, A]) Hold(until time.Time) (others int) {
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots.held = true
	q.hold(c, until)
	return len(q.waiting)
}

// Sent notes that the batch with c at its head has waited for a connection, and is sent now.
func (c *Call[Q, A]) Sent() {
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots.held = false
	q.hold(c, time.Time{})
	q.dispatch()
}

// past reports whether the call's deadline has passed.
func (c *Call[Q, A]) past(now time.Time) bool { return !c.Deadline.IsZero() && !c.Deadline.After(now) }

// await waits until the call is answered, its deadline has passed or its context has ended.
func (q *Queue[Q, A]) await(c *Call[Q, A]) (A, error) {
	if left := c.Context.Done(); left == nil {
		<-c.done // without the cost of a select
	} else {
		select {
		case <-c.done:
		case <-left:
			if c.settled.CompareAndSwap(false, true) {
				return *new(A), q.config.ErrLeft(c.Context)
			}
			<-c.done // the server has answered: its answer counts (TestInlineAnswerCounts)
		}
	}
	if c.err != nil { // the call may have expired: then Serve may still have it (TestAnswers)
		return c.answer, c.err
	}
	answer := c.answer
	c.Context, c.Request, c.answer = nil, *new(Q), *new(A) // so that it keeps nothing alive (TestAnsweredKeepsNothing)
	q.calls.Put(c)
	return answer, nil
}

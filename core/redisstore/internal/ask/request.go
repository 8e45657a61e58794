// Package ask has the request that travels along the chain of a decision in Redis: through the leases, which are a
// package of their own, and the other links.
package ask

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
)

// Request is a request that no memory has answered. It is passed by value: an answer must not take memory.
type Request struct {
	core.Ask
	Began    time.Time // when the caller began to wait, or when a link began to ask for the caller
	Deadline time.Time // until when the caller waits; the zero time is no deadline
}

// Begin returns a request that begins now.
func Begin(ask core.Ask) Request {
	q := Request{Ask: ask, Began: time.Now()}
	if ask.Timeout > 0 {
		q.Deadline = q.Began.Add(ask.Timeout)
	}
	return q
}

// Context returns ctx, ended with the cause [core.ErrTimeout] at the deadline: for a link that waits on a context
// alone. The caller calls cancel when it has the answer.
func (q Request) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	if q.Deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, q.Deadline, core.ErrTimeout)
}

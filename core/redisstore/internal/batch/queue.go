package batch

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// MaxBatch is the most calls of a batch: more would keep the server from its other clients for too long.
const MaxBatch = 32

// Config says how calls are served. Serve, ErrLate, ErrQueued and ErrCanceled are required.
type Config[Q, A any] struct {
	// Serve answers the calls of a batch, each by [Call.Answer], or has other goroutines answer them. It returns false
	// if it gave up waiting for the server. Then it must have answered none of them: calls with a deadline end with
	// ErrLate, and the time that the batch took is not taken for a round trip. A call without a deadline, whose
	// context does not end, must be answered. The slice is reused once Serve has returned.
	//
	// Serve runs on the goroutine of a caller if InlineMin and InlineMax allow it. That caller cannot leave before
	// Serve returns, so Serve must return when the batch's deadline has passed: see [Queue.Deadline].
	Serve func(batch []*Call[Q, A]) (inTime bool)

	// ErrLate is the error of a call after its deadline, and ErrQueued that of one that Serve has not got by then.
	ErrLate, ErrQueued error

	// ErrCanceled returns the error of a call whose context has ended.
	ErrCanceled func(context.Context) error

	// MinWait is the least time that a server has to answer, however soon the callers' deadlines are.
	MinWait time.Duration

	// A caller serves its own call if the time until its deadline is between InlineMin and InlineMax. With less time an
	// impatient caller would decide whether the server has failed; with more a cancelled caller would stay for too
	// long. If InlineMax is 0, workers serve all calls.
	InlineMin, InlineMax time.Duration

	// MaxSlots bounds the batches in flight, as the server's connections do. 0 is no bound.
	MaxSlots int
}

// Queue groups calls into batches. It is safe for concurrent use. It needs no closing: its workers end by themselves
// when there are no calls.
type Queue[Q, A any] struct {
	config Config[Q, A]

	mu       sync.Mutex
	waiting  []*Call[Q, A]  // oldest first
	inFlight []*batch[Q, A] // all batches for which Serve runs, oldest first, lost ones included
	slots    slots
	workers  idleWorkers
	timer    timer

	// calls has calls to reuse. A call that has failed or was cancelled is not among them: Serve may still have it.
	calls sync.Pool
}

// batch is some calls that are served together. The queue's lock guards its fields, but for inTime and, while Serve
// runs, the slice: that does not change then.
type batch[Q, A any] struct {
	calls  []*Call[Q, A]
	sentAt time.Time
	inTime bool // the result of Serve
	lost   bool // its reply is no longer expected: see slots.go
}

// New returns a queue.
func New[Q, A any](config Config[Q, A]) *Queue[Q, A] {
	q := &Queue[Q, A]{config: config}
	q.slots.total, q.slots.max = minSlots, cmp.Or(config.MaxSlots, maxSlots)
	q.workers.wake = make(chan bool, maxSlots) // so that senders hardly wait with the lock held
	q.calls.New = func() any {
		c := &Call[Q, A]{done: make(chan struct{}, 1)}
		c.own.calls = []*Call[Q, A]{c}
		return c
	}
	return q
}

// Do has one request served. It returns the answer that Serve gives, ErrLate or ErrQueued once the deadline has passed,
// or ErrCanceled's error once ctx has ended. The zero deadline is none. A caller that serves its own call leaves with
// the reply or at its deadline, not when ctx ends. The request may have been served although Do returns an error.
func (q *Queue[Q, A]) Do(ctx context.Context, deadline time.Time, request *Q) (A, error) {
	c := q.calls.Get().(*Call[Q, A])
	q.mu.Lock()
	// The timer may still find the call in the batch of its last use, and then sees the deadline of this use.
	c.Context, c.Deadline, c.Request = ctx, deadline, *request
	c.settled.Store(false)
	c.inline = q.startInline(c)
	if !c.inline {
		q.waiting = append(q.waiting, c)
		q.dispatch()
		q.wakeTimerBy(deadline)
	}
	q.mu.Unlock()
	if c.inline {
		q.serveInline(c)
	}
	return q.wait(c)
}

// startInline reports whether the caller is to serve its call itself, and starts the call's own batch if so. That
// saves two switches between goroutines. Calls that would have to wait for a slot are left to workers, and so are calls
// whose callers may leave before the deadline. q.mu must be held.
func (q *Queue[Q, A]) startInline(c *Call[Q, A]) bool {
	if q.config.InlineMax == 0 || q.slots.full() {
		return false
	}
	now := time.Now()
	left := c.Deadline.Sub(now)
	if left <= 0 || left < q.config.InlineMin || left > q.config.InlineMax || c.Context.Err() != nil {
		return false
	}
	if end, ends := c.Context.Deadline(); ends && end.Before(c.Deadline) {
		return false
	}
	q.start(&c.own, now)
	return true
}

// serveInline serves a call on its caller's goroutine. Calls that came meanwhile are left to a worker: they must not
// keep the caller. If Serve panics, the caller may recover: the slot must be free then.
func (q *Queue[Q, A]) serveInline(c *Call[Q, A]) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.end(&c.own, time.Now()); len(q.waiting) > 0 {
			q.dispatch()
		}
	}()
	q.serve(&c.own)
}

// serve runs Serve for a batch that has started. If Serve gives up, the timer does not find the calls any more once the
// batch has ended, so they are answered here. Calls without a deadline are left to their contexts.
func (q *Queue[Q, A]) serve(b *batch[Q, A]) {
	if b.inTime = q.config.Serve(b.calls); b.inTime {
		return
	}
	for _, c := range b.calls {
		if !c.Deadline.IsZero() {
			c.Answer(*new(A), q.config.ErrLate)
		}
	}
}

// Deadline returns when the call to the server for a batch must end: the latest deadline of the callers, or the zero
// time if one of them has none. A server that has not answered at failAt has failed: that is the earliest deadline of
// the callers. Neither is before MinWait has passed. Otherwise one caller with a long deadline in each batch would hide
// from all others that the server does not answer. The zero time is never.
func (q *Queue[Q, A]) Deadline(batch []*Call[Q, A]) (failAt, end time.Time) {
	if c := batch[0]; c.inline { // the caller leaves at its deadline
		return c.Deadline, c.Deadline
	}
	return deadlineOf(batch, time.Now().Add(q.config.MinWait))
}

// deadlineOf returns the same, with failAt no earlier than least.
func deadlineOf[Q, A any](batch []*Call[Q, A], least time.Time) (failAt, end time.Time) {
	endless := false
	for _, c := range batch {
		own := c.Deadline
		if own.IsZero() {
			own, _ = c.Context.Deadline()
		}
		if own.IsZero() {
			endless = true
			continue
		}
		if own.Before(least) {
			own = least
		}
		if failAt = minTime(failAt, own); own.After(end) {
			end = own
		}
	}
	if endless {
		end = time.Time{}
	}
	return failAt, end
}

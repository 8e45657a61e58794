package gather

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// MaxBatch is how many calls a batch has at most: more would keep the server from its other clients for too long. See
// TestWaitingCallsGoTogether.
const MaxBatch = 32

// Config says how calls are served. Serve, ErrLate, ErrQueued and ErrLeft are required.
type Config[Q, A any] struct {
	// Serve answers the calls of a batch, each by [Call.Answer], or has other goroutines answer them. It reports false
	// if it gave up waiting for the server: then it must have answered none of them, every call that has a deadline
	// ends with ErrLate, and the time that the batch took is not taken for a round trip. A call that has neither a
	// deadline nor a context that ends must be answered. The slice is used again once Serve has returned.
	//
	// Serve runs on the goroutine of a caller if InlineMin and InlineMax allow it. That caller cannot leave before
	// Serve returns. So Serve must return when the batch's deadline has passed: see [Queue.Deadlines].
	Serve func(batch []*Call[Q, A]) (inTime bool)

	// ErrLate is the error of a call after its deadline, and ErrQueued that of one that Serve has not got by then.
	ErrLate, ErrQueued error

	// ErrLeft returns the error of a call after the end of its context.
	ErrLeft func(context.Context) error

	// MinPatience is for how long a server is waited for at least, however soon the callers' deadlines are.
	MinPatience time.Duration

	// A caller serves its own call if the time that is left until its deadline is between InlineMin and InlineMax.
	// If less time is left, the server would be judged by an impatient caller; if more is left, a cancelled caller
	// would stay for too long. If InlineMax is 0, all calls are served by workers.
	InlineMin, InlineMax time.Duration

	// MaxSlots bounds the batches that are under way at a time, as the server's connections do. 0 is no bound. Batches
	// that would wait for a connection are smaller than they need be (TestMaxSlots).
	MaxSlots int
}

// Queue gathers calls into batches. It is safe for concurrent use. It needs no closing: its workers end by themselves
// when there are no calls.
type Queue[Q, A any] struct {
	config Config[Q, A]

	mu       sync.Mutex
	waiting  []*Call[Q, A]  // oldest first
	underWay []*batch[Q, A] // all batches for which Serve runs, oldest first, lost ones included
	slots    slots
	workers  idleWorkers
	timer    timer

	// calls has calls to use again. A call that has failed, or that its caller has left, is not among them: Serve may
	// still have it.
	calls sync.Pool
}

// batch is some calls that are served together. The queue's lock guards its fields; Serve alone reads the slice.
type batch[Q, A any] struct {
	calls  []*Call[Q, A]
	sentAt time.Time
	inTime bool      // Serve has said so
	lost   bool      // see slots.go
	held   time.Time // until then the batch is held; see Hold
}

// New returns a queue.
func New[Q, A any](config Config[Q, A]) *Queue[Q, A] {
	q := &Queue[Q, A]{config: config}
	q.slots.total, q.slots.most = minSlots, cmp.Or(config.MaxSlots, maxSlots)
	q.workers.wake = make(chan bool, maxSlots) // so that nothing waits with the lock held (TestWakeDoesNotWait)
	q.calls.New = func() any {
		c := &Call[Q, A]{queue: q, done: make(chan struct{}, 1)}
		c.own.calls = []*Call[Q, A]{c}
		return c
	}
	return q
}

// Do has one request served. It returns the answer that Serve gives, or ErrLate or ErrQueued once the deadline has
// passed, or what ErrLeft makes of ctx once that has ended. The zero deadline is none. A caller that serves its own
// call leaves at its deadline, not when ctx ends. The request may have been served although Do returns an error.
func (q *Queue[Q, A]) Do(ctx context.Context, deadline time.Time, request *Q) (A, error) {
	c := q.calls.Get().(*Call[Q, A])
	q.mu.Lock()
	// The timer may still find the call in the batch of its last use, and then sees the deadline of this use.
	c.Context, c.Deadline, c.Request = ctx, deadline, *request
	c.settled.Store(false)
	c.inline = q.beginInline(c)
	if !c.inline {
		q.waiting = append(q.waiting, c)
		q.dispatch()
		q.wakeTimerBy(deadline)
	}
	q.mu.Unlock()
	if c.inline {
		q.serveInline(c)
	}
	return q.await(c)
}

// beginInline reports whether the caller is to serve its call itself, and begins the call's own batch if so. That saves
// two switches between goroutines: a caller that is alone is as fast as the client of the server is without this
// package. Calls that would have to wait for a slot are left to workers (TestInlineSlots), and so are calls whose
// callers must not wait for the server until the deadline (TestInline). q.mu must be held.
func (q *Queue[Q, A]) beginInline(c *Call[Q, A]) bool {
	if q.slots.taken() {
		return false
	}
	now := time.Now()
	left := c.Deadline.Sub(now)
	if left <= 0 || left < max(q.config.InlineMin, farTrips*q.slots.roundTrip) || left > q.config.InlineMax ||
		c.Context.Err() != nil {
		return false
	}
	if end, ends := c.Context.Deadline(); ends && end.Before(c.Deadline) {
		return false
	}
	q.begin(&c.own, now)
	return true
}

// serveInline serves a call on its caller's goroutine. Calls that came meanwhile are left to a worker, since a caller
// must not be kept by the calls of others (TestInlineSlots). If Serve panics, the caller may recover: then the slot
// must be free (TestInlinePanic).
func (q *Queue[Q, A]) serveInline(c *Call[Q, A]) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.end(&c.own, time.Now())
		q.dispatch()
	}()
	q.serve(&c.own)
}

// serve runs Serve for a batch that has begun. If it gives up, the timer does not find the calls any more once the
// batch has ended (TestGivenUp). Calls without a deadline are left to their contexts (TestGivenUpByContext).
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

// hold notes until when a batch is held. q.mu must be held.
func (q *Queue[Q, A]) hold(first *Call[Q, A], until time.Time) {
	for _, b := range q.underWay {
		if b.calls[0] == first {
			b.held, b.sentAt = until, time.Now()
			q.wakeTimerBy(b.sentAt.Add(lostAfter))
		}
	}
}

// Deadlines returns when the call to the server for a batch must end: as late as the most patient of the callers waits,
// or the zero time if one of them has no deadline. The server is judged earlier, at judge: by the least patient of the
// callers, but not before MinPatience. Otherwise a single caller with a long deadline in each batch would hide from all
// others that the server does not answer. The zero time is never. See TestBatchDeadlines.
func (q *Queue[Q, A]) Deadlines(batch []*Call[Q, A]) (judge, end time.Time) {
	var least time.Time
	if !batch[0].inline { // else the caller is to leave at its deadline (TestBatchDeadlines)
		least = time.Now().Add(q.config.MinPatience)
	}
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
		if judge = earlier(judge, own); own.After(end) {
			end = own
		}
	}
	if endless {
		end = time.Time{}
	}
	return judge, end
}

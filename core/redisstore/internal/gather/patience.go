package gather

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Patience is the context of a call to the server, mostly for a batch. It lasts as long as the most patient of the
// callers waits, and never ends if one of them has no deadline. It does not end when callers leave. It has the values
// of the first call's context.
//
// The server is judged earlier: by the least patient of the callers, but not before MinPatience. Otherwise a single
// caller with a long deadline in each batch would hide from all others that the server does not answer (TestPatience).
type Patience struct {
	context.Context
	deadline time.Time // the zero time is none
	errLate  error
	over     chan struct{}

	// Sent is set when the call to the server waits for its turn no more.
	Sent atomic.Bool

	mu    sync.Mutex
	timer *time.Timer // nil if the server is not judged before the call has ended
	judge func(error) // nil once the server has been judged
}

// Patience returns the context for a batch, as NewPatience does.
func (q *Queue[Q, A]) Patience(batch []*Call[Q, A], judge func(error)) *Patience {
	var least time.Time
	if !batch[0].inline { // else the caller is to leave at its deadline (TestInlineLeavesAtDeadline)
		least = time.Now().Add(q.config.MinPatience)
	}
	var judgeAt, deadline time.Time
	endless := false
	for _, c := range batch {
		end := c.Deadline
		if end.IsZero() {
			end, _ = c.Context.Deadline()
		}
		if end.IsZero() {
			endless = true
			continue
		}
		end = later(end, least)
		judgeAt = earlier(judgeAt, end)
		deadline = later(deadline, end)
	}
	if endless {
		deadline = time.Time{}
	}
	return NewPatience(batch[0].Context, judgeAt, deadline, q.config.ErrLate, judge)
}

// NewPatience returns a context that has the values of ctx and ends at the deadline, with an error of errLate. It calls
// judge once: with errLate at judgeAt, on a goroutine of its own, or with what Stop is given, if Stop is called before.
// The deadline is not before judgeAt, or zero for none. Without a time to judge at there is no deadline either.
func NewPatience(ctx context.Context, judgeAt, deadline time.Time, errLate error, judge func(error)) *Patience {
	p := &Patience{
		Context:  context.WithoutCancel(ctx),
		deadline: deadline,
		errLate:  errLate,
		judge:    judge,
		over:     make(chan struct{}),
	}
	if !judgeAt.IsZero() {
		p.mu.Lock() // until the timer is known: it may fire at once (TestPatience, with the race detector)
		p.timer = time.AfterFunc(time.Until(judgeAt), p.fire)
		p.mu.Unlock()
	}
	return p
}

// fire has the server judged, and ends the context at its deadline. If Stop has just been called, neither matters
// (TestPatienceStops).
func (p *Patience) fire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell(p.errLate)
	switch left := time.Until(p.deadline); {
	case p.deadline.IsZero(): // a caller without a deadline: the context never ends
	case left > 0:
		p.timer.Reset(left)
	default:
		close(p.over)
	}
}

// tell has the server judged by err, unless it has been. p.mu must be held.
func (p *Patience) tell(err error) {
	if p.judge != nil {
		p.judge(err)
		p.judge = nil
	}
}

// Stop must be called when the call to the server has ended, with what is to be judged: an error or nil. It reports
// whether the context lasted until then.
func (p *Patience) Stop(err error) (inTime bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.tell(err)
	return p.Err() == nil
}

// Passed reports whether the deadline has passed. A connection with the same deadline may notice before the context
// ends: its error then means ErrLate.
func (p *Patience) Passed() bool { return !p.deadline.IsZero() && !time.Now().Before(p.deadline) }

// Deadline implements [context.Context].
func (p *Patience) Deadline() (time.Time, bool) { return p.deadline, !p.deadline.IsZero() }

// Done implements [context.Context].
func (p *Patience) Done() <-chan struct{} { return p.over }

// Err implements [context.Context].
func (p *Patience) Err() error {
	select {
	case <-p.over:
		return p.errLate
	default:
		return nil
	}
}

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

// Attempt is one call to a server, for one request or for a batch, and the context of that call. It lasts until its
// deadline, whoever leaves: else callers in a hurry would never open the server's breaker, or never close it
// (TestHastyCallers). The breaker is told once what became of it.
type Attempt struct {
	context.Context // its values are the first caller's

	Inline bool  // a caller serves it, and leaves no later than at the deadline
	Batch  Batch // what it decides; nil if that is one request

	client   *Client
	server   *Server
	deadline time.Time     // the zero time is none
	patience time.Duration // until the server is judged; 0 is without end
	over     chan struct{}

	mu     sync.Mutex
	tell   func(error)  // tells the breaker; nil once it has been told
	timer  *time.Timer  // nil without a time to judge the server at
	from   *connections // of which one was taken, or nil
	target Target       // what it was taken for
	until  time.Time    // when a connection must have been made that was taken and turns out to be broken
	sentAt time.Time    // when the script was sent last
	left   bool         // it was too late when the script could be sent, or will be: another is sent instead
}

// Batch is what an attempt decides together.
type Batch interface {
	// Hold notes that the batch waits for a connection, until a time at most, and returns how many other calls wait.
	Hold(until time.Time) (others int)

	// Sent notes that the batch has waited for a connection, and is sent now.
	Sent()
}

// Begin begins a call to a server for ctx. It returns an error if no decision waits for that server. At judgeAt, if the
// call has not ended by then, the breaker is told that the server is late; at the deadline the call ends. The deadline
// is not before judgeAt, or zero for none. Without a time to judge at there is no deadline either.
func (c *Client) Begin(ctx context.Context, s *Server, judgeAt, deadline time.Time) (*Attempt, error) {
	tell, err := s.current.Load().Allow()
	if err != nil {
		return nil, *s.refusal.Load()
	}
	a := &Attempt{
		Context: context.WithoutCancel(ctx), client: c, server: s,
		deadline: deadline, over: make(chan struct{}), tell: tell,
	}
	if !judgeAt.IsZero() {
		a.startTimer(judgeAt)
	}
	return a, nil
}

// Unheard begins a call that ends at a deadline, and of which no breaker is told.
func (c *Client) Unheard(ctx context.Context, s *Server, deadline time.Time) *Attempt {
	a := &Attempt{Context: ctx, client: c, server: s, deadline: deadline, over: make(chan struct{})}
	a.startTimer(deadline)
	return a
}

func (a *Attempt) startTimer(at time.Time) {
	a.mu.Lock() // until the timer is known: it may fire at once (TestAttempt, with the race detector)
	defer a.mu.Unlock()
	a.patience = time.Until(at)
	a.timer = time.AfterFunc(a.patience, a.fire)
}

// take notes that a has taken a connection for t.
func (a *Attempt) take(from *connections, t Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.from, a.target = from, t
	if !a.Inline && !a.deadline.IsZero() {
		a.until = time.Now().Add(connectTime)
	}
}

// connecting reports whether the connection that was taken is made anew, as nothing has been sent. It is made to the
// end whether callers leave or not, unless one of them waits here. a.mu must be held.
func (a *Attempt) connecting() bool {
	return (a.left || a.sentAt.IsZero()) && a.until.After(a.deadline)
}

// send notes that the script is sent now, and reports whether its reply may come in time. Else another is to be sent,
// without a caller that waits.
func (a *Attempt) send() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sentAt = time.Now()
	if a.from == nil {
		return true
	}
	left := a.deadline.Sub(a.sentAt) // of a call that has not waited it need not be enough: the way may be shorter now
	late := !a.deadline.IsZero() && left <= min(a.from.roundTrip(), a.patience*3/4)
	a.left = a.left || late || a.Err() != nil
	return !a.left
}

// fire judges the server, and ends the context at its deadline. If the call has just ended, neither matters
// (TestAttemptEnds).
func (a *Attempt) fire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.sentAt.IsZero() && time.Since(a.sentAt) > a.patience/2:
		a.judge(ErrLate)
	case !a.sentAt.IsZero(), a.server.connections.freeSince(time.Now().Add(-a.patience)):
		a.judge(errCaller{ErrQueued}) // the server is there, and others came first
	default:
		a.judge(ErrQueued)
	}
	switch left := time.Until(a.deadline); {
	case a.deadline.IsZero(): // a caller without a deadline: the context never ends
	case left > 0:
		a.timer.Reset(left)
	case a.connecting() && time.Now().Before(a.until):
		a.left = true
		a.timer.Reset(time.Until(a.until))
	default:
		close(a.over)
	}
}

// judge tells the breaker what became of the call, unless it has been told. a.mu must be held.
func (a *Attempt) judge(err error) {
	if a.tell == nil {
		return
	}
	if IsFailure(err) && !isCallers(err) {
		cold := a.patience
		if !a.sentAt.IsZero() && !a.left {
			cold = 0
		}
		a.server.failed(err, cold) // before the breaker opens
		if a.client.cluster != nil {
			// The master may have been replaced. go-redis learns of that only from servers that answer
			// (TestMapAfterFailure of redisstore).
			a.client.cluster.ReloadState(context.Background())
		}
	}
	a.tell(err)
	a.tell = nil
}

// End must be called when the call has ended, with what the server is judged by: an error or nil. It reports whether
// the context lasted until then.
func (a *Attempt) End(err error) (inTime bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.judge(err)
	if a.from != nil {
		lost := err != nil && !isCallers(err) && (!IsReply(err) || closes(err))
		a.from.giveBack(a.target, lost)
		if a.left && err == nil {
			a.from.reached(time.Since(a.sentAt))
		}
		a.from = nil
	}
	return a.Err() == nil && !a.left
}

// LateOr returns err with its remedy, or ErrLate for an error of the connection once the deadline
// has passed: the connection has the same deadline, and may be the first to notice.
func (a *Attempt) LateOr(err error) error {
	switch {
	case err == nil:
		return nil
	case IsReply(err), core.StageOf(err) == core.StageQueued:
	case !a.deadline.IsZero() && !time.Now().Before(a.deadline):
		return ErrLate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // words that say too little in a log
		return fmt.Errorf("sash: the connection to Redis broke: %w", err)
	}
	return Remedied(err)
}

// Deadline implements [context.Context].
func (a *Attempt) Deadline() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connecting() {
		return a.until, true
	}
	return a.deadline, !a.deadline.IsZero()
}

// Done implements [context.Context].
func (a *Attempt) Done() <-chan struct{} { return a.over }

// Err implements [context.Context].
func (a *Attempt) Err() error {
	select {
	case <-a.over:
		return ErrLate
	default:
		return nil
	}
}

// Eval sends a script when there is a connection, and waits for the reply. args is called when it can be sent. The
// caller ends the attempt.
func (a *Attempt) Eval(t Target, args func() []any, source string) (string, error) {
	reply, err := a.client.inTurn(a, func() (string, error) {
		if err := a.server.connections.take(a, t); err != nil {
			return "", err
		}
		return a.client.evalNow(a, args(), source)
	})
	return reply, a.LateOr(err)
}

// Pipeline sends scripts by their hashes, when there is a connection, and waits for the replies; see [Text]. The
// caller ends the attempt.
func (a *Attempt) Pipeline(t Target, calls [][]any) []redis.Cmder {
	cmds := make([]redis.Cmder, len(calls))
	for i, args := range calls {
		cmds[i] = newOnce(a, args)
	}
	a.client.Scripts.Add(uint64(len(calls)))
	via := a.client.within(a)
	if a.server != a.client.First {
		via = a.server.connections.via
	}
	pipe := via.Pipeline()
	_ = pipe.BatchProcess(a, cmds...) // queues them
	sent := false
	_, err := a.client.inTurn(a, func() (string, error) {
		err := a.server.connections.take(a, t)
		if sent = err == nil; sent {
			_, err = pipe.Exec(a)
		}
		return "", err
	})
	if err == nil {
		return cmds
	}
	for _, cmd := range cmds {
		if !sent || errors.Is(err, errUnreadable) {
			cmd.SetErr(err)
		}
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			a.client.NoScripts.Add(1)
		}
	}
	return cmds
}

// Text returns the reply to a call of a pipeline.
func Text(cmd redis.Cmder) (string, error) { return cmd.(*once).Result() }

// Alone sends a script for one request, and waits for the reply until ctx ends; see guarded.
func (c *Client) Alone(ctx context.Context, deadline time.Time, t Target, args []any, source string) (string, error) {
	return c.guarded(ctx, deadline, c.Server(ctx, script.FirstKey(args)), t, func(ctx context.Context) (string, error) {
		return c.evalNow(ctx, args, source)
	})
}

// guarded makes a call for one request, unless the breaker is open, and waits
// for the reply until ctx ends. deadline is the limiter's, or zero. If the breaker
// tries whether the server is back, the caller does not wait: the policy answers at
// once, and the outcome is for later requests (TestTrialOfTheHasty).
func (c *Client) guarded(
	ctx context.Context, deadline time.Time, s *Server, t Target, call func(context.Context) (string, error),
) (string, error) {
	trial := !s.Closed()
	if deadline.IsZero() {
		deadline, _ = ctx.Deadline()
	}
	if trial || !deadline.IsZero() { // a trial ends in any case (TestTrialWithoutDeadline)
		if least := time.Now().Add(core.DefaultTimeout); deadline.Before(least) {
			deadline = least
		}
	}
	own, err := c.Begin(ctx, s, deadline, deadline)
	if err != nil {
		return "", err
	}
	var settled atomic.Bool // by the call, which is sent, or by the caller, who has left before
	judged := func() (string, error) {
		reply, err := c.inTurn(own, func() (string, error) {
			if err := s.connections.take(own, t); err != nil {
				return "", err
			}
			if !settled.CompareAndSwap(false, true) {
				return "", errCaller{ErrQueued}
			}
			return call(own)
		})
		err = own.LateOr(err)
		if !own.End(err) && err == nil {
			return "", ErrLate
		}
		return reply, err
	}
	if trial {
		go func() { _, _ = judged() }()
		// The request may be counted, so no remembered refusal answers it.
		return "", core.AtStage(core.StageReply, *s.refusal.Load())
	}
	reply, err := UntilEnded(ctx, judged)
	if err != nil && settled.CompareAndSwap(false, true) {
		err = core.AtStage(core.StageQueued, err)
	}
	return reply, err
}

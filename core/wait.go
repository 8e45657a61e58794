package core

import (
	"context"
	"fmt"
	"time"
)

// Errors of [Limiter.Wait], to be compared with [errors.Is].
const (
	// ErrTooLate: the context has a deadline, and by then the request cannot have
	// passed. It is a [context.DeadlineExceeded] too.
	ErrTooLate constError = "sash: the context ends before the request can pass"

	// ErrNever: the cost exceeds a limit, so that no wait is long enough.
	ErrNever constError = "sash: the request can never pass"
)

// Wait sleeps until a request of cost 1 by the client named key is admitted, and returns
// the decision that admits it. It is for programs that call others: workers, senders,
// clients. The error is nil iff the decision's Allowed is true. A refusal for which no
// store was asked has the error in Err, too.
//
// Where the wait cannot succeed, Wait returns at once and does not sleep: with
// [ErrTooLate] if the context's deadline comes first, as far as the counts and the
// waiters ahead tell; with [ErrNever]; with [ErrInvalid] for an empty key or a negative
// cost. When the context ends, Wait returns its error. A store may have counted a request
// whose context ended while the store was asked, as with Allow. An admission that comes
// back is returned, also if the context ended at the same moment: it is counted.
//
// The waiters of one limiter and key are served in the order in which they came, the
// large costs too: a smaller one behind a larger one waits its turn. The first asks, and
// others follow when an answer has said that there is room for them, so that a store is
// hardly asked more often than it admits. Nothing polls. A waiter comes back after
// RetryAfter and up to a fiftieth of it later, at most 100 ms, and never sooner. Where
// several processes wait for one key, the store decides which goes first, and the one that
// was admitted last comes back up to four times as much later. A [Limiter.Reset] by
// this limiter wakes the waiters of its key, and its [Limiter.SetLimits] those of all keys;
// one from elsewhere is seen when the first waiter asks again.
//
// While the store cannot be asked, [FailOpen] admits as it does in Allow. Under
// [FailClosed], and where a [Fallback] fails too, one waiter of the key tries again after
// 50 to 100 ms, drawn at random, and after twice as long each time up to 5 s. If the deadline
// comes before the next try, the error is an ErrTooLate that matches [ErrStore] too.
//
// The observer hears of each request to the store, the refused ones included. No
// goroutine and no memory remain when no caller waits.
func (l *Limiter) Wait(ctx context.Context, key string) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN is [Limiter.Wait] for a request that costs n units, all or nothing. With n = 0 it
// takes its turn, and counts nothing.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) (Decision, error) {
	r := Request{Key: key, Cost: n}
	if r.check(ctx) != nil {
		d := l.Decide(ctx, r) // the observer hears of it
		return d, d.Err
	}
	for _, limit := range l.current() {
		if n > limit.Requests {
			err := &waitError{ErrNever, fmt.Sprintf("a cost of %d exceeds the limit %v", n, limit), nil}
			return Decision{Limit: limit, RetryAfter: Never, Err: err}, err
		}
	}
	w := &waiter{cost: n, wake: make(chan struct{}, 1)}
	w.deadline, w.hasDeadline = ctx.Deadline()
	q := l.waiting.join(key, w, l.current())
	for {
		switch ask, sleep, late := l.waiting.turn(q, w); {
		case late != nil:
			return w.last, late
		case ask:
			if d, done := l.askFor(ctx, q, w, r); done {
				return d, d.refusal()
			}
		case !w.sleep(ctx, sleep):
			l.waiting.leave(q, w)
			return Decision{Err: ctx.Err()}, ctx.Err()
		}
	}
}

// askFor asks the store for w, which has its turn, and reports whether the wait is over: w
// is admitted, or its context has ended. If the observer panics, the turn goes on to the
// next waiter (TestWaitPanic).
func (l *Limiter) askFor(ctx context.Context, q *waitQueue, w *waiter, r Request) (d Decision, done bool) {
	answered := false
	defer func() {
		if !answered {
			l.waiting.answered(q, w, nil)
		}
	}()
	d = l.Decide(ctx, r)
	answered = true
	if !d.Allowed && d.Source == Unasked && d.Err != nil { // the context has ended
		l.waiting.answered(q, w, nil)
		return d, true
	}
	l.waiting.answered(q, w, &d)
	return d, d.Allowed
}

// refusal returns nil for an admission, and else why the store was not asked.
func (d *Decision) refusal() error {
	if d.Allowed {
		return nil
	}
	return d.Err
}

// forever is the sleep of a waiter that another one wakes.
const forever = Never

// sleep returns true when w is woken or d is over, and false when ctx has ended.
func (w *waiter) sleep(ctx context.Context, d time.Duration) bool {
	var over <-chan time.Time
	if d != forever {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.wake:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}

// waitError is an error of Wait: ErrTooLate or ErrNever, and why.
type waitError struct {
	err   error
	words string
	store error // what the store has failed with; nil if it has not
}

func (e *waitError) Error() string {
	text := e.err.Error() + ": " + e.words
	if e.store != nil {
		text += ": " + withoutPrefix(e.store)
	}
	return text
}

// Unwrap returns the error that says what has happened, and that of the store.
func (e *waitError) Unwrap() []error {
	if e.store == nil {
		return []error{e.err}
	}
	return []error{e.err, e.store}
}

// Package clientlimit limits the requests that a program sends over HTTP and gRPC. A request waits for its turn, and
// for the end of a pause that the server requested.
//
//	gate := clientlimit.Gate{MaxPause: clientlimit.DefaultPause}
//	if _, err := gate.Admit(ctx, limiter, key, 1); err != nil {
//		return err // do not send
//	}
//	...
//	gate.Pause(key, wait) // requested by the server
package clientlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
)

// Errors of a Gate, as documented in package httpclient.
var (
	ErrLimited = errors.New("sash: the limit is reached")
	ErrPaused  = errors.New("sash: the server has asked for a pause")
)

// DefaultPause is the default of MaxPause.
const DefaultPause = time.Hour

// Gate admits requests to servers. It is safe for concurrent use. Its fields must not change after the first use.
type Gate struct {
	NoWait   bool          // a request fails where it would have to wait
	MaxPause time.Duration // longest pause; 0 ignores pauses

	pauses pauses
}

// Admit waits until a request of n units of the key may be sent. It returns an error if it must not be sent.
func (g *Gate) Admit(ctx context.Context, l *core.Limiter, key string, n int64) (core.Decision, error) {
	for {
		if remaining := g.pauses.remaining(key); remaining > 0 {
			if err := g.waitPause(ctx, remaining); err != nil {
				return core.Decision{RetryAfter: remaining, Err: err}, err
			}
			continue
		}
		d, err := g.decide(ctx, l, key, n)
		if err != nil || g.pauses.remaining(key) == 0 {
			return d, err
		}
	}
}

// Pause pauses the key, unless it is paused for longer already.
func (g *Gate) Pause(key string, wait time.Duration) { g.pauses.start(key, min(wait, g.MaxPause)) }

// decide asks the limiter, and waits unless NoWait is set.
func (g *Gate) decide(ctx context.Context, l *core.Limiter, key string, n int64) (core.Decision, error) {
	if !g.NoWait {
		return l.WaitN(ctx, key, n)
	}
	d := l.AllowN(ctx, key, n)
	switch {
	case d.Allowed:
		return d, nil
	case d.Err != nil:
		return d, d.Err
	}
	return d, ErrLimited
}

// waitPause waits for the rest of a pause. It returns an error at once if the wait would be too long.
func (g *Gate) waitPause(ctx context.Context, remaining time.Duration) error {
	if g.NoWait {
		return ErrPaused
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Add(remaining).Before(deadline) {
		return &lateError{remaining}
	}
	timer := time.NewTimer(remaining)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lateError is the error of a pause that ends after the context's deadline.
type lateError struct{ remaining time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("%v of %v more, and the context ends before", ErrPaused, e.remaining)
}
func (e *lateError) Unwrap() []error { return []error{ErrPaused, core.ErrTooLate} }

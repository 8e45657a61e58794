// Package clientlimit limits what a program sends, over HTTP and gRPC: a request waits for its turn, and for the end of
// the pause that a server has asked for.
//
//	gate := outgoing.Gate{MaxPause: outgoing.DefaultPause}
//	if _, err := gate.Admit(ctx, limiter, key, 1); err != nil {
//		return err // not to be sent
//	}
//	...
//	gate.Pause(key, wait) // the server has asked for it
package clientlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
)

// Errors of a Gate. Package httpclient says what they mean.
var (
	ErrLimited = errors.New("sash: the limit is reached")
	ErrPaused  = errors.New("sash: the server has asked for a pause")
)

// DefaultPause is the MaxPause of a program that gives none.
const DefaultPause = time.Hour

// Gate admits the requests to servers. Its fields do not change once it is used; then it is safe for concurrent use.
type Gate struct {
	NoWait   bool          // a request fails where it would have to wait
	MaxPause time.Duration // a longer pause is cut to it; 0 for none at all

	pauses pauses
}

// Admit returns when a request of the key, which costs n units, may be sent, or with why it must not be.
func (g *Gate) Admit(ctx context.Context, l *core.Limiter, key string, n int64) (core.Decision, error) {
	for {
		if left := g.pauses.left(key); left > 0 {
			if err := g.sitOut(ctx, left); err != nil {
				return core.Decision{RetryAfter: left, Err: err}, err
			}
			continue
		}
		d, err := g.decide(ctx, l, key, n)
		if err != nil || g.pauses.left(key) == 0 {
			return d, err
		}
	}
}

// Pause begins a pause of the key. One that ends later stays.
func (g *Gate) Pause(key string, wait time.Duration) { g.pauses.note(key, min(wait, g.MaxPause)) }

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

// sitOut waits for the rest of a pause, or returns why there is no use in waiting.
func (g *Gate) sitOut(ctx context.Context, left time.Duration) error {
	if g.NoWait {
		return ErrPaused
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Add(left).Before(deadline) {
		return &lateError{left}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lateError says that a pause ends after the context's deadline.
type lateError struct{ left time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("%v of %v more, and the context ends before", ErrPaused, e.left)
}
func (e *lateError) Unwrap() []error { return []error{ErrPaused, core.ErrTooLate} }

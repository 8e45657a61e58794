package fakeserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// Link is the connection of a process to the server. It has a delay and loses replies.
type Link struct {
	Server     *Server
	Delay      func() time.Duration // one way
	LosesReply func() bool          // reports whether the next reply is lost; nil loses none
}

// ErrLost is the error of a call that lost its reply.
var ErrLost = errors.New("the reply was lost")

// ranKey is the context key for the time of a call's last script.
type ranKey struct{}

// WithRan returns a context whose calls store the time of their script in at, in microseconds of the server's clock.
func WithRan(ctx context.Context, at *atomic.Int64) context.Context {
	return context.WithValue(ctx, ranKey{}, at)
}

// Take implements [core.Ledger]. It waits for the reply until ctx ends or the deadline passes. The script runs in any
// case.
func (l Link) Take(ctx context.Context, ask core.Ask) core.Decision {
	ctx, cancel := ask.Context(ctx)
	defer cancel()
	type answer struct {
		d  core.Decision
		at int64
	}
	done := make(chan answer, 1)
	out, back, lost := l.Delay(), l.Delay(), l.LosesReply != nil && l.LosesReply()
	go func() {
		time.Sleep(out)
		now := l.Server.Now()
		d := l.Server.Decide(now, ask)
		time.Sleep(back)
		if lost {
			done <- answer{d: core.Decision{Err: ErrLost}}
			return
		}
		done <- answer{d: d, at: now}
	}()
	select {
	case a := <-done:
		if at, ok := ctx.Value(ranKey{}).(*atomic.Int64); ok && a.d.Err == nil {
			at.Store(a.at)
		}
		return a.d
	case <-ctx.Done():
		return core.Decision{Err: context.Cause(ctx)}
	}
}

// Return implements [core.Ledger]. It takes no time.
func (l Link) Return(_ context.Context, back core.Refund) (int64, error) {
	return l.Server.Return(back), nil
}

// Usage implements [core.Ledger]; it returns nothing.
func (l Link) Usage(context.Context, string) ([]core.Usage, error) { return nil, nil }

// Reset implements [core.Ledger]; it does nothing.
func (l Link) Reset(context.Context, string) error { return nil }

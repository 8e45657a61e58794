package fakeserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// Link is how a process reaches the server: that takes time, and replies get lost.
type Link struct {
	Server *Server
	Delay  func() time.Duration // one way
	Loses  func() bool          // reports whether a reply is lost; nil: none is
}

// ErrLost is the error of a call that lost its reply.
var ErrLost = errors.New("the reply was lost")

// ran is the context key of when a call's script ran last.
type ran struct{}

// WithRan returns a context whose calls leave in at when the script ran, by the server's clock in microseconds.
func WithRan(ctx context.Context, at *atomic.Int64) context.Context {
	return context.WithValue(ctx, ran{}, at)
}

// Take implements [core.Ledger]. It waits for the reply until ctx ends or the deadline passes. The script runs all the
// same.
func (k Link) Take(ctx context.Context, ask core.Ask) core.Decision {
	ctx, cancel := ask.Context(ctx)
	defer cancel()
	type answer struct {
		d  core.Decision
		at int64
	}
	done := make(chan answer, 1)
	there, back, lost := k.Delay(), k.Delay(), k.Loses != nil && k.Loses()
	go func() {
		time.Sleep(there)
		now := k.Server.Now()
		d := k.Server.Decide(now, ask)
		time.Sleep(back)
		if lost {
			done <- answer{d: core.Decision{Err: ErrLost}}
			return
		}
		done <- answer{d: d, at: now}
	}()
	select {
	case a := <-done:
		if at, ok := ctx.Value(ran{}).(*atomic.Int64); ok && a.d.Err == nil {
			at.Store(a.at)
		}
		return a.d
	case <-ctx.Done():
		return core.Decision{Err: context.Cause(ctx)}
	}
}

// Return implements [core.Ledger]. It takes no time.
func (k Link) Return(_ context.Context, back core.Refund) (int64, error) {
	return k.Server.Return(back), nil
}

// Usage implements [core.Ledger]; it returns nothing.
func (k Link) Usage(context.Context, string) ([]core.Usage, error) { return nil, nil }

// Reset implements [core.Ledger]; it does nothing.
func (k Link) Reset(context.Context, string) error { return nil }

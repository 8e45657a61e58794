package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
)

// eval runs the script of args for one request, and waits for the reply until
// ctx ends; see guarded.
func (c *client) eval(ctx context.Context, deadline time.Time, args []any, source string) (string, error) {
	return c.guarded(ctx, deadline, c.server(ctx, firstKey(args)).breaker, func(ctx context.Context) (string, error) {
		return c.evalNow(ctx, args, source)
	})
}

// guarded makes a call for one request, unless the breaker is open, and waits
// for the reply until ctx ends. deadline is the limiter's, or zero.
//
// The call has a time of its own and goes on when the caller leaves: else
// callers in a hurry would never open the breaker, or never close it
// (TestHastyCallers). If the breaker tries whether the server is back, the caller
// does not wait: the policy answers at once, and the outcome is for later requests
// (TestTrialOfTheHasty).
func (c *client) guarded(
	ctx context.Context, deadline time.Time, b *breaker, call func(context.Context) (string, error),
) (string, error) {
	tell, err := b.Allow()
	if err != nil {
		return "", b.errOpen()
	}
	trial := b.State() == gobreaker.StateHalfOpen
	if deadline.IsZero() {
		deadline, _ = ctx.Deadline()
	}
	if trial || !deadline.IsZero() { // a trial ends in any case (TestTrialWithoutDeadline)
		if least := time.Now().Add(core.DefaultTimeout); deadline.Before(least) {
			deadline = least
		}
	}
	own := gather.NewPatience(ctx, deadline, deadline, errLate, c.judge(b, tell))
	judged := func() (string, error) {
		reply, err := call(own)
		err = lateOr(own, err)
		own.Stop(err)
		return reply, err
	}
	if trial {
		go judged()
		return "", b.errTrial()
	}
	reply, err := untilEnded(ctx, judged)
	if err != nil && !own.Sent.Load() {
		err = core.AtStage(core.StageQueued, err)
	}
	return reply, err
}

// ended returns the error of a call after the end of its context: the server's, if
// the limiter's timeout ended the context, and else the caller's (TestEnded).
func ended(ctx context.Context) error {
	err := core.AtStage(core.StageReply, fmt.Errorf("sash: waiting for Redis: %w", context.Cause(ctx)))
	if errors.Is(err, core.ErrTimeout) {
		return err
	}
	return errCaller{err}
}

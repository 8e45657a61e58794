package server

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// command is a script, or another command, on its way to a server, and its reply. go-redis does not repeat it: it may
// have run although its reply was lost.
type command struct {
	redis.StringCmd
	calls []*call // that it answers
}

// NoRetry implements [redis.Cmder].
func (*command) NoRetry() bool { return true }

func newCommand(ctx context.Context, args []any, calls []*call) *command {
	return &command{*redis.NewStringCmd(ctx, args...), calls}
}

// process sends commands to a server, in one write.
func process(ctx context.Context, via redis.UniversalClient, cmds ...*command) {
	defer recoverInto(cmds)
	if len(cmds) == 1 {
		_ = via.Process(ctx, cmds[0])
		return
	}
	pipe := via.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx)
}

// recoverInto makes a panic of go-redis the error of the commands. It must be deferred.
func recoverInto(cmds []*command) {
	if p := recover(); p != nil {
		for _, cmd := range cmds {
			cmd.SetErr(Unreadable(p))
		}
	}
}

// resend sends a command again whose script has not run: by its source to a server that does not know the hash, to the
// server of a slot that has moved, and after a pause while a slot is moving.
func (c *Client) resend(ctx context.Context, cmd *command) {
	via, redirected := c.within(ctx), c.cluster == nil
	for pause := time.Millisecond; ; {
		args := cmd.Args()
		switch err := cmd.Err(); {
		case Begins(err, "NOSCRIPT") && args[0] == "evalsha":
			c.NoScripts.Add(1)
			args = append([]any{"eval", cmd.calls[0].Request.script().Source}, args[2:]...)
		case Begins(err, "MOVED", "ASK") && !redirected:
			redirected = true // by the client of the cluster
		case Begins(err, "TRYAGAIN") && Rest(ctx, pause):
			pause *= 2
		default:
			return
		}
		c.Scripts.Add(1)
		cmd.StringCmd = *redis.NewStringCmd(ctx, args...)
		process(ctx, via, cmd)
	}
}

// within returns the client to use until ctx ends. Where it can, its connection waits exactly that long.
func (c *Client) within(ctx context.Context) redis.UniversalClient {
	if _, ok := ctx.Deadline(); ok && c.Single != nil {
		return c.Single
	}
	return c.RDB
}

// Rest pauses, and reports whether ctx lasts longer. If not, it returns at once, so that the last error is known in
// time.
func Rest(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Del deletes keys of one slot, and waits until ctx ends. It does not ask the breaker.
func (c *Client) Del(ctx context.Context, args []any) error {
	cmd := newCommand(ctx, args, nil)
	done := make(chan error, 1)
	go func() {
		process(ctx, c.within(ctx), cmd)
		done <- cmd.Err()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errEnded(ctx)
	}
}

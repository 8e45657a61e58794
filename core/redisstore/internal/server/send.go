package server

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// maxCalls bounds the calls to Redis that are under way. A call of a caller
// that has left counts until it ends. A call beyond the bound waits for its
// turn (TestCallsBounded).
const maxCalls = 1024

// once is a command that go-redis does not repeat: a script may have run although
// its reply was lost (TestSending, TestAtMostOneCharge of redisstore).
type once struct {
	redis.StringCmd
	attempt *Attempt // nil if there is none
}

func (*once) NoRetry() bool { return true }

// Args returns what is sent. go-redis asks for it when it has a connection. If the callers have left by then, as it had
// to be made, a script that changes nothing is sent: a charge would be seconds late, and with nothing to answer the
// connection would be lost (TestFarStore of redisstore).
func (o *once) Args() []any {
	if o.attempt != nil && !o.attempt.send() {
		return o.attempt.target.probe()
	}
	return o.StringCmd.Args()
}

func newOnce(ctx context.Context, args []any) *once {
	a, _ := ctx.(*Attempt)
	return &once{*redis.NewStringCmd(ctx, args...), a}
}

// evalNow sends a script by its hash, and by its source if the server does not
// know the hash: then nothing has run, so the script is not repeated (TestSending).
// The call must have its turn.
func (c *Client) evalNow(ctx context.Context, args []any, source string) (string, error) {
	for pause := time.Millisecond; ; {
		c.Scripts.Add(1)
		cmd := newOnce(ctx, args)
		err := c.within(ctx).Process(ctx, cmd)
		switch {
		case err == nil:
			return cmd.Val(), nil
		case redis.HasErrorPrefix(err, "NOSCRIPT") && args[0] == "evalsha":
			c.NoScripts.Add(1)
			args = append([]any{"eval", source}, args[2:]...)
		case redis.HasErrorPrefix(err, "TRYAGAIN") && Rest(ctx, pause):
			// While a slot moves, some keys are here and some there; nothing has run (TestSending).
			pause *= 2
		default:
			return "", err
		}
	}
}

// Ask sends a script whose outcome no breaker is told of.
func (c *Client) Ask(ctx context.Context, args []any, source string) (string, error) {
	return c.inTurn(ctx, func() (string, error) { return c.evalNow(ctx, args, source) })
}

// inTurn makes a call to Redis, as one of at most maxCalls at a time. If ctx ends before
// its turn, it is not made.
func (c *Client) inTurn(ctx context.Context, call func() (string, error)) (reply string, err error) {
	select {
	case c.calls <- struct{}{}:
	case <-ctx.Done():
		return "", core.AtStage(core.StageQueued, Ended(ctx))
	}
	defer func() {
		<-c.calls
		if p := recover(); p != nil {
			err = Unreadable(p)
		}
	}()
	return call()
}

// Rest pauses, and reports whether ctx lasts for longer: else the last error is
// told in time (TestSending).
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

// Del deletes keys of one slot, and waits until ctx ends (TestDelEnds). No breaker is asked.
func (c *Client) Del(ctx context.Context, args []any) error {
	_, err := UntilEnded(ctx, func() (string, error) {
		return c.inTurn(ctx, func() (string, error) {
			return "", c.within(ctx).Process(ctx, newOnce(ctx, args))
		})
	})
	return err
}

// UntilEnded makes a call, and waits for what it returns until ctx ends. The call goes
// on then.
func UntilEnded(ctx context.Context, call func() (string, error)) (string, error) {
	type result struct {
		reply string
		err   error
	}
	answered := make(chan result, 1)
	go func() {
		reply, err := call()
		answered <- result{reply, err}
	}()
	select {
	case r := <-answered:
		return r.reply, r.err
	case <-ctx.Done():
		return "", Ended(ctx)
	}
}

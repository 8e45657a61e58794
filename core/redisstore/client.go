package redisstore

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// client sends commands through the user's client so that the caller waits no
// longer than its context and a script is sent at most once. A stock client
// would do neither: it does not heed deadlines, and it retries three times.
type client struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb, if it is one

	// Of a single server: the same client with read and write timeouts of 2^i
	// milliseconds, made when first needed. They share one pool.
	single *redis.Client
	timed  [32]atomic.Pointer[redis.Client]

	calls chan struct{} // a token for each call under way
}

// maxCalls bounds the goroutines that wait for Redis on behalf of callers that
// may have gone. A call beyond it waits its turn, within its own deadline.
const maxCalls = 1024

func (c *client) init(rdb redis.UniversalClient) {
	c.rdb = rdb
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.single, _ = rdb.(*redis.Client)
	c.calls = make(chan struct{}, maxCalls)
}

// once is a command that go-redis does not repeat: a script whose reply was
// lost may have run.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// eval runs a script by its hash, and by its source if the server does not
// know it: then it has not run, so that is no repetition.
func (c *client) eval(ctx context.Context, args []any, source string) (string, error) {
	reply, err := c.do(ctx, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		args = append([]any{"eval", source}, args[2:]...)
		reply, err = c.do(ctx, args)
	}
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%w: %T", errReply, reply)
	}
	return text, nil
}

func (c *client) del(ctx context.Context, args []any) error {
	_, err := c.do(ctx, args)
	return err
}

type result struct {
	reply any
	err   error
}

// do sends a command and waits for its reply or the end of ctx. A caller that
// leaves early leaves a goroutine behind, which ends with the client's own
// timeouts.
func (c *client) do(ctx context.Context, args []any) (any, error) {
	select {
	case c.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("sash: %d calls to Redis are under way: %w", maxCalls, context.Cause(ctx))
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-c.calls }()
		cmd := once{redis.NewCmd(ctx, args...)}
		err := c.within(ctx).Process(ctx, cmd)
		if err != nil && c.cluster != nil && !isReply(err) {
			// The node may have been replaced, which go-redis learns only from
			// replies of nodes that live.
			c.cluster.ReloadState(context.WithoutCancel(ctx))
		}
		done <- result{cmd.Val(), err}
	}()
	select {
	case r := <-done:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("sash: no reply from Redis in time: %w", context.Cause(ctx))
	}
}

// processor is what all clients have in common.
type processor interface {
	Process(context.Context, redis.Cmder) error
}

// within is the client to use until ctx ends: its connection waits at least
// that long for a reply, and at most twice.
func (c *client) within(ctx context.Context) processor {
	deadline, ok := ctx.Deadline()
	if c.single == nil || !ok {
		return c.rdb
	}
	i := bits.Len64(uint64(max(1, time.Until(deadline).Milliseconds())))
	if i >= len(c.timed) {
		return c.rdb
	}
	if timed := c.timed[i].Load(); timed != nil {
		return timed
	}
	timed := c.single.WithTimeout(time.Millisecond << i)
	c.timed[i].CompareAndSwap(nil, timed)
	return timed
}

// isReply says whether err is what a server answered.
func isReply(err error) bool {
	_, ok := err.(redis.Error)
	return ok && !strings.HasPrefix(err.Error(), "redis: ")
}

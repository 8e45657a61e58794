package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// client sends commands through the user's client so that the caller waits no
// longer than its context, a script is sent at most once, and nobody waits for
// a server that has been failing. A stock client would do none of it: it does
// not heed deadlines, and it retries three times.
type client struct {
	rdb      redis.UniversalClient
	breakers breakers

	// Of a cluster: whether its map of slots has been loaded. Before, asking
	// for a key's master may wait for the network.
	cluster   *redis.ClusterClient
	mapped    atomic.Bool
	pipelines pipelines

	// Of a single server: the same client with read and write timeouts of 2^i
	// milliseconds, made when first needed. They share one pool.
	single *redis.Client
	timed  [32]atomic.Pointer[redis.Client]
	apart  atomic.Pointer[pipeline] // nil unless separate has been called

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

// onceString is once for a script whose reply is known to be a string.
type onceString struct{ *redis.StringCmd }

func (onceString) NoRetry() bool { return true }

// eval runs a script through the breaker of the server that holds key, which is
// one of its keys.
func (c *client) eval(ctx context.Context, key string, args []any, source string) (string, error) {
	return guarded(ctx, c.breaker(ctx, key), func(ctx context.Context) (string, error) {
		return c.evalNow(ctx, c.send, key, args, source)
	})
}

// evalNow has a script sent by its hash, and by its source if the server does
// not know it: then it has not run, so that is no repetition.
func (c *client) evalNow(ctx context.Context, send func(context.Context, string, []any) (any, error), key string, args []any, source string) (string, error) {
	reply, err := send(ctx, key, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		args = append([]any{"eval", source}, args[2:]...)
		reply, err = send(ctx, key, args)
	}
	// While a slot moves, some keys are here and some there; nothing has run.
	for pause := time.Millisecond; err != nil && redis.HasErrorPrefix(err, "TRYAGAIN") && rest(ctx, pause); pause *= 2 {
		reply, err = send(ctx, key, args)
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

// del deletes keys of one slot. It is tried whatever the breaker says: it is
// rare, and an operator's.
func (c *client) del(ctx context.Context, key string, args []any) error {
	_, err := c.send(ctx, key, args)
	return err
}

// breaker is that of the server that holds key, as far as is known.
func (c *client) breaker(ctx context.Context, key string) *breaker {
	if c.cluster == nil || !c.mapped.Load() {
		return c.breakers.get("")
	}
	master, err := c.cluster.MasterForKey(ctx, key)
	if err != nil {
		return c.breakers.get("")
	}
	return c.breakers.get(master.Options().Addr)
}

type result struct {
	reply any
	err   error
}

// process sends a command, as one of at most maxCalls at a time, and waits for
// its reply: until ctx ends, where go-redis heeds that, and else for as long as
// the client's own timeouts.
func (c *client) process(ctx context.Context, key string, args []any) (any, error) {
	if !c.enter(ctx) {
		return nil, ended(ctx)
	}
	defer c.leave()
	cmd := once{redis.NewCmd(ctx, args...)}
	err := c.within(ctx).Process(ctx, cmd)
	if c.cluster != nil {
		c.learn(ctx, key, err)
	}
	return cmd.Val(), err
}

// enter waits until there are less than maxCalls, or ctx ends.
func (c *client) enter(ctx context.Context) bool {
	select {
	case c.calls <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *client) leave() { <-c.calls }

// send is process for a caller who waits no longer than ctx lasts: who leaves
// early leaves a goroutine behind.
func (c *client) send(ctx context.Context, key string, args []any) (any, error) {
	done := make(chan result, 1)
	go func() {
		reply, err := c.process(ctx, key, args)
		done <- result{reply, err}
	}()
	select {
	case r := <-done:
		if r.err != nil && ctx.Err() != nil {
			return nil, ended(ctx)
		}
		return r.reply, r.err
	case <-ctx.Done():
		err := ended(ctx)
		if c.cluster != nil && !isCallers(err) {
			c.cluster.ReloadState(context.WithoutCancel(ctx)) // see learn; the call itself may go on for seconds
		}
		return nil, err
	}
}

// rest waits, and says whether ctx lasts for longer than that.
func rest(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= 2*pause {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// ended is the error of a call whose context ended: on account of the server
// if it was the limiter's timeout, else on account of the caller.
func ended(ctx context.Context) error {
	err := fmt.Errorf("sash: waiting for Redis: %w", context.Cause(ctx))
	if errors.Is(err, core.ErrTimeout) {
		return err
	}
	return errCaller{err}
}

// learn keeps the cluster's map of slots fresh after a call that ended with err.
func (c *client) learn(ctx context.Context, key string, err error) {
	if err != nil && !isReply(err) {
		// The master may have been replaced, which go-redis learns by itself
		// only from nodes that answer.
		c.cluster.ReloadState(context.WithoutCancel(ctx))
	}
	if !c.mapped.Load() {
		if _, err := c.cluster.MasterForKey(ctx, key); err == nil {
			c.mapped.Store(true)
		}
	}
}

// processor is what all clients have in common.
type processor interface {
	Process(context.Context, redis.Cmder) error
	Pipeline() redis.Pipeliner
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

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/gather"
)

// client sends commands through the user's client. A caller waits no longer
// than its deadline, a script is sent at most once, and no caller waits for a
// server that has been failing. A stock client does none of this: it ignores
// deadlines, and it retries three times.
type client struct {
	rdb   redis.UniversalClient
	calls chan struct{} // a token for each call under way

	first *server // the only one, or stands for every server that is not known
	nodes nodes

	// Of a single server: the client, and one on the same pool with connections that
	// heed deadlines.
	single, heeding *redis.Client
	exact           bool                   // a call to heeding returns when its context ends
	apart           atomic.Pointer[server] // nil unless separate has been called

	// Of a cluster: whether its map of slots has been loaded. Before, asking for
	// the master of a key may wait for the network.
	cluster *redis.ClusterClient
	mapped  atomic.Bool

	ring *redis.Ring
}

const (
	// maxCalls bounds the calls to Redis that are under way. A call of a caller
	// that has left counts until it ends. A call beyond the bound waits for its
	// turn.
	maxCalls = 1024

	// longestWait bounds what a connection waits for a reply when a call has a
	// deadline that is later.
	longestWait = time.Hour
)

func (c *client) init(rdb redis.UniversalClient) {
	c.rdb = rdb
	c.calls = make(chan struct{}, maxCalls)
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.ring, _ = rdb.(*redis.Ring)
	if c.single, _ = rdb.(*redis.Client); c.single != nil {
		// WithTimeout reads options that go-redis changes when it connects, so
		// the clone must not wait for the first decision. The clone's options
		// are its own, and nothing else has seen the clone yet.
		c.heeding = c.single.WithTimeout(longestWait)
		o := c.heeding.Options()
		o.ContextTimeoutEnabled = true
		c.exact = isExact(o)
	}
	c.first = &server{breaker: newBreaker("")}
}

// isExact reports whether nothing of the program runs while a caller waits for a
// connection: it might not heed the context. go-redis dials on a goroutine of its
// own.
func isExact(o *redis.Options) bool {
	return o.OnConnect == nil && o.Limiter == nil && o.CredentialsProvider == nil &&
		o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}

// once is a command that go-redis does not repeat: a script may have run although
// its reply was lost.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// onceString is once for a script that is known to reply with a string.
type onceString struct{ *redis.StringCmd }

func (onceString) NoRetry() bool { return true }

type result struct {
	reply string
	err   error
}

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
// callers in a hurry would never open the breaker, or never close it. If the
// breaker tries whether the server is back, the caller does not wait: the
// policy answers at once, and the outcome is for later requests.
func (c *client) guarded(
	ctx context.Context, deadline time.Time, b *breaker, call func(context.Context) (string, error),
) (string, error) {
	tell, err := b.Allow()
	if err != nil {
		return "", errOpen
	}
	trial := b.State() == gobreaker.StateHalfOpen
	if deadline.IsZero() {
		deadline, _ = ctx.Deadline()
	}
	if trial || !deadline.IsZero() { // a trial ends in any case (TestTrialWithoutDeadline)
		deadline = later(deadline, time.Now().Add(core.DefaultTimeout))
	}
	own := gather.NewPatience(ctx, deadline, deadline, errLate, c.late(tell))
	answered := make(chan result, 1)
	go func() {
		reply, err := call(own)
		own.Stop()
		if err = lateOr(own, err); !own.Judged() {
			tell(err)
		}
		answered <- result{reply, err}
	}()
	if trial {
		return "", errTrial
	}
	select {
	case r := <-answered:
		return r.reply, r.err
	case <-ctx.Done():
		return "", ended(ctx)
	}
}

// evalNow sends a script by its hash, and by its source if the server does not
// know the hash: then nothing has run, so the script is not repeated.
func (c *client) evalNow(ctx context.Context, args []any, source string) (string, error) {
	key := firstKey(args)
	reply, err := c.process(ctx, key, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		args = append([]any{"eval", source}, args[2:]...)
		reply, err = c.process(ctx, key, args)
	}
	// While a slot moves, some keys are here and some there; nothing has run.
	for pause := time.Millisecond; err != nil && redis.HasErrorPrefix(err, "TRYAGAIN") && rest(ctx, pause); pause *= 2 {
		reply, err = c.process(ctx, key, args)
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

// firstKey returns the first key of a script's call. All keys of a call are on
// one server.
func firstKey(args []any) string { return args[3].(string) }

// process sends a command, as one of at most maxCalls at a time, and waits for
// its reply: until ctx ends, where go-redis heeds that, and else for as long as
// the client's own timeouts.
func (c *client) process(ctx context.Context, key string, args []any) (reply any, err error) {
	if !c.enter(ctx) {
		return nil, ended(ctx)
	}
	defer c.leave()
	defer func() {
		if p := recover(); p != nil {
			err = unreadable(p)
		}
	}()
	cmd := once{redis.NewCmd(ctx, args...)}
	err = c.within(ctx).Process(ctx, cmd)
	c.learn(ctx, key, err)
	return cmd.Val(), err
}

// unreadable is the error of a call at which go-redis panicked, as it does at a reply
// that announces an impossible length. Decisions run in goroutines where net/http does
// not recover, so that the panic would end the process.
func unreadable(panicked any) error {
	return fmt.Errorf("sash: the Redis client cannot read the reply: %v", panicked)
}

// enter waits for one of the maxCalls tokens, and reports whether there was one
// before ctx ended.
func (c *client) enter(ctx context.Context) bool {
	select {
	case c.calls <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *client) leave() { <-c.calls }

// del deletes keys of one slot, and waits until ctx ends. The breaker is not
// asked: a deletion is rare, and an operator's.
func (c *client) del(ctx context.Context, key string, args []any) error {
	answered := make(chan error, 1)
	go func() {
		_, err := c.process(ctx, key, args)
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil && ctx.Err() != nil {
			return ended(ctx)
		}
		return err
	case <-ctx.Done():
		return ended(ctx)
	}
}

// rest pauses, and reports whether ctx lasts for longer than that.
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

// ended returns the error of a call after the end of its context: the server's, if
// the limiter's timeout ended the context, and else the caller's.
func ended(ctx context.Context) error {
	err := core.AtStage(core.StageReply, fmt.Errorf("sash: waiting for Redis: %w", context.Cause(ctx)))
	if errors.Is(err, core.ErrTimeout) {
		return err
	}
	return errCaller{err}
}

// processor is what all clients have in common.
type processor interface {
	Process(context.Context, redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// within returns the client to use until ctx ends. Where it can, its connection
// waits exactly that long.
func (c *client) within(ctx context.Context) processor {
	if _, ok := ctx.Deadline(); ok && c.heeding != nil {
		return c.heeding
	}
	return c.rdb
}

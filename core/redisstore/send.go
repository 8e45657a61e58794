package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxCalls bounds the calls to Redis that are under way. A call of a caller
// that has left counts until it ends. A call beyond the bound waits for its
// turn (TestCallsBounded).
const maxCalls = 1024

// once is a command that go-redis does not repeat: a script may have run although
// its reply was lost (TestSending, TestAtMostOneCharge).
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// onceString is once for a script that is known to reply with a string.
type onceString struct{ *redis.StringCmd }

func (onceString) NoRetry() bool { return true }

// evalNow sends a script by its hash, and by its source if the server does not
// know the hash: then nothing has run, so the script is not repeated (TestSending).
func (c *client) evalNow(ctx context.Context, args []any, source string) (string, error) {
	key := firstKey(args)
	reply, err := c.script(ctx, key, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		args = append([]any{"eval", source}, args[2:]...)
		reply, err = c.script(ctx, key, args)
	}
	// While a slot moves, some keys are here and some there; nothing has run (TestSending).
	for pause := time.Millisecond; err != nil && redis.HasErrorPrefix(err, "TRYAGAIN") && rest(ctx, pause); pause *= 2 {
		reply, err = c.script(ctx, key, args)
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

// script sends a script and counts it.
func (c *client) script(ctx context.Context, key string, args []any) (any, error) {
	c.events.scripts.Add(1)
	reply, err := c.process(ctx, key, args)
	c.noteReply(err)
	return reply, err
}

// noteReply counts the replies that say that a server does not know a script.
func (c *client) noteReply(err error) {
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		c.events.noScripts.Add(1)
	}
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
// not recover, so that the panic would end the process (TestSending).
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

// rest pauses, and reports whether ctx lasts for longer: else the last error is
// told in time (TestSending).
func rest(ctx context.Context, pause time.Duration) bool {
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

// del deletes keys of one slot, and waits until ctx ends (TestDelEnds). The breaker is
// not asked: a deletion is rare, and an operator's.
func (c *client) del(ctx context.Context, key string, args []any) error {
	answered := make(chan error, 1)
	go func() {
		_, err := c.process(ctx, key, args)
		answered <- err
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ended(ctx)
	}
}

package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
)

// pipeline sends together what is decided by one master of a cluster or one
// shard of a ring: a script for each request, in one write and one read. On a
// cluster a script may have keys of one slot only.
type pipeline struct {
	together
	node *redis.Client // nil if the client is for a single server
}

func newPipeline(c *client, node *redis.Client, breaker *breaker) *pipeline {
	p := &pipeline{together{client: c, breaker: breaker}, node}
	p.queue = newQueue(p.serve, false) // a node's client does not heed deadlines
	return p
}

// serve decides a batch; see [gather.Config]. Where a script has not run,
// because the slot has moved or the server does not know the script, the request
// goes on alone, as go-redis's client for all servers follows the slot.
func (p *pipeline) serve(batch []*call) (inTime bool) {
	ctx := p.begin(batch)
	if ctx == nil {
		return true
	}
	cmds := p.exec(ctx, batch)
	if !ctx.Stop(failure(ctx, cmds)) {
		return false
	}
	for i, c := range batch {
		switch err := cmds[i].Err(); {
		case err == nil:
			r := &c.Request
			p.client.noteAnswer(p.breaker, p.node, &r.counts.rule)
			c.Answer(r.counts.readAlone(cmds[i].(once).Val(), &r.Ask))
		case notRun(err):
			go p.resend(c)
		default:
			c.Answer(core.Decision{}, lateOr(ctx, err))
		}
	}
	return true
}

// failure returns the first error that speaks against the server, or nil.
func failure(ctx *gather.Patience, cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); isFailure(err) && !notRun(err) {
			return lateOr(ctx, err)
		}
	}
	return nil
}

// notRun reports whether err says that the server has not run a script.
func notRun(err error) bool { return begins(err, "NOSCRIPT", "MOVED", "ASK", "TRYAGAIN") }

// exec sends a script for each call and waits for the replies, like
// client.process.
func (p *pipeline) exec(ctx context.Context, batch []*call) []redis.Cmder {
	cmds := make([]redis.Cmder, len(batch))
	for i, c := range batch {
		cmds[i] = newOnce(ctx, c.Request.args)
	}
	p.client.events.scripts.Add(uint64(len(batch)))
	var server redis.UniversalClient = p.node
	if p.node == nil {
		server = p.client.within(ctx)
	}
	pipe := server.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // queues them
	err := p.client.inTurn(ctx, func() error {
		_, err := pipe.Exec(ctx)
		return err
	})
	if err == nil {
		return cmds
	}
	for _, cmd := range cmds {
		if errors.Is(err, errUnreadable) {
			cmd.SetErr(err)
		}
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			p.client.events.noScripts.Add(1)
		}
	}
	if !isReply(err) {
		p.client.learn(ctx, err)
	}
	return cmds
}

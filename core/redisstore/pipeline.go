package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// pipeline sends together what is decided by one master of a cluster, where a
// script may have keys of one slot only: a script for each request, in one
// write and one read.
type pipeline struct {
	queue
	client  *client
	master  *redis.Client // nil if the client is for a single server
	breaker *breaker
}

func newPipeline(c *client, master *redis.Client, breaker *breaker) *pipeline {
	p := &pipeline{client: c, master: master, breaker: breaker}
	p.init(p.together)
	return p
}

// pipelines holds one for each master.
type pipelines struct {
	mu sync.RWMutex
	of map[*redis.Client]*pipeline
}

// maxPipelines bounds what is kept of masters that have gone.
const maxPipelines = 256

// separate has a script sent for each request from now on: the client is for a
// single server, and that takes keys of one slot only.
func (c *client) separate() {
	c.apart.CompareAndSwap(nil, newPipeline(c, nil, c.breakers.get("")))
}

// pipeline is that of the master that holds key, or nil where there is none, or
// which one it is cannot be known without waiting.
func (c *client) pipeline(ctx context.Context, key string) *pipeline {
	if c.cluster == nil {
		return c.apart.Load()
	}
	if !c.mapped.Load() {
		return nil
	}
	master, err := c.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil
	}
	c.pipelines.mu.RLock()
	p := c.pipelines.of[master]
	c.pipelines.mu.RUnlock()
	if p != nil {
		return p
	}
	c.pipelines.mu.Lock()
	defer c.pipelines.mu.Unlock()
	if p = c.pipelines.of[master]; p == nil {
		if c.pipelines.of == nil || len(c.pipelines.of) >= maxPipelines {
			c.pipelines.of = map[*redis.Client]*pipeline{}
		}
		p = newPipeline(c, master, c.breakers.get(master.Options().Addr))
		c.pipelines.of[master] = p
	}
	return p
}

// together decides a batch; see queue.run. A request whose script has not run,
// because the slot has moved or the server does not know the script, goes on by
// itself, as the cluster's client follows.
func (p *pipeline) together(batch []*call) bool {
	done, err := p.breaker.Allow()
	if err != nil {
		for _, c := range batch {
			c.answer(core.Decision{}, errOpen)
		}
		return true
	}
	ctx := newPatience(batch, func() {
		done(errLate)
		if p.client.cluster != nil {
			p.client.cluster.ReloadState(context.Background()) // see learn; the call itself may go on for seconds
		}
	})
	cmds := p.exec(ctx, batch)
	if !ctx.stop() {
		return false
	}
	var failure error
	for i, c := range batch {
		switch err := cmds[i].Err(); {
		case err == nil:
			c.answer(c.counts.readAlone(cmds[i].(onceString).Val(), c.cost, c.charge))
		case notRun(err):
			go c.alone()
		default:
			err = ctx.judge(err)
			if failure == nil && isFailure(err) {
				failure = err
			}
			c.answer(core.Decision{}, err)
		}
	}
	done(failure)
	return true
}

// notRun says whether the server has turned a script away unseen.
func notRun(err error) bool {
	for _, prefix := range []string{"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// exec sends a script for each call and waits for the replies, like
// client.process.
func (p *pipeline) exec(ctx context.Context, batch []*call) []redis.Cmder {
	cmds := make([]redis.Cmder, len(batch))
	for i, c := range batch {
		cmds[i] = onceString{redis.NewStringCmd(ctx, c.args...)}
	}
	if !p.client.enter(ctx) {
		return nil
	}
	defer p.client.leave()
	var server processor = p.master
	if p.master == nil {
		server = p.client.within(ctx)
	}
	pipe := server.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // queues them
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) && p.client.cluster != nil {
		p.client.learn(ctx, batch[0].args[3].(string), err)
	}
	return cmds
}

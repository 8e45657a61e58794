package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// pipeline sends together what is decided by one master of a cluster, where a
// script may have keys of one slot only: a script for each request, in one
// write and one read.
type pipeline struct {
	queue
	client  *client
	master  *redis.Client
	breaker *breaker
}

// pipelines holds one for each master.
type pipelines struct {
	mu sync.RWMutex
	of map[*redis.Client]*pipeline
}

// maxPipelines bounds what is kept of masters that have gone.
const maxPipelines = 256

// pipeline is that of the master that holds key, or nil while that is not
// known without waiting.
func (c *client) pipeline(ctx context.Context, key string) *pipeline {
	if c.cluster == nil || !c.mapped.Load() {
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
		p = &pipeline{client: c, master: master, breaker: c.breakers.get(master.Options().Addr)}
		p.run = p.together
		c.pipelines.of[master] = p
	}
	return p
}

// together decides a batch. A request whose script has not run, because the
// slot has moved or the server does not know the script, goes on by itself, as
// the cluster's client follows.
func (p *pipeline) together(batch []*call) {
	done, err := p.breaker.Allow()
	if err != nil {
		for _, c := range batch {
			c.done <- outcome{err: errOpen}
		}
		return
	}
	ctx, cancel := patience(batch)
	defer cancel()
	replies, err := p.exec(ctx, batch)
	if err != nil {
		done(err)
		for _, c := range batch {
			c.done <- outcome{err: err}
		}
		return
	}
	var failure error
	for i, c := range batch {
		switch r := replies[i]; {
		case notRun(r.err):
			go func() {
				d, err := c.counts.askAlone(c.ctx, c.key, c.cost, c.charge)
				c.done <- outcome{d, err}
			}()
		case r.err != nil:
			if failure == nil && isFailure(r.err) {
				failure = r.err
			}
			c.done <- outcome{err: r.err}
		default:
			text, _ := r.reply.(string)
			d, err := c.counts.readAlone(text, c.cost, c.charge)
			c.done <- outcome{d, err}
		}
	}
	done(failure)
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

// exec sends a script for each call and waits for the replies or the end of
// ctx; see client.send.
func (p *pipeline) exec(ctx context.Context, batch []*call) ([]result, error) {
	select {
	case p.client.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	replies := make(chan []result, 1)
	pipe := p.master.Pipeline()
	cmds := make([]once, len(batch))
	for i, c := range batch {
		cmds[i] = once{redis.NewCmd(ctx, c.counts.command(c.key, c.cost, c.charge)...)}
		_ = pipe.Process(ctx, cmds[i]) // queues it
	}
	key := cmds[0].Args()[3].(string)
	go func() {
		defer func() { <-p.client.calls }()
		_, err := pipe.Exec(ctx)
		if err != nil && !isReply(err) {
			p.client.learn(ctx, key, err)
		}
		results := make([]result, len(cmds))
		for i, cmd := range cmds {
			results[i] = result{cmd.Val(), cmd.Err()}
		}
		replies <- results
	}()
	select {
	case r := <-replies:
		return r, nil
	case <-ctx.Done():
		p.client.cluster.ReloadState(context.WithoutCancel(ctx)) // see learn
		return nil, ended(ctx)
	}
}

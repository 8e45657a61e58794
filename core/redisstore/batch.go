package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// batches decides together what waits together, on a single server: one script
// call for many requests costs the client, the network and the server little
// more than one for one. Nobody waits for a batch to fill: a request that finds
// a worker free is sent alone, and those that come while all workers are under
// way are taken along by the next.
type batches struct {
	client  *client
	breaker *breaker
	script  script

	mu      sync.Mutex
	waiting []*call
	workers int

	apart atomic.Bool // the server takes no keys of several slots
}

const (
	maxBatch   = 32 // more keep the server from others for too long
	maxWorkers = 3  // by measurement, with 64 callers on two processors
)

// call is a request that waits for its part of a batch's reply.
type call struct {
	ctx    context.Context
	counts *counts
	key    string
	cost   int64
	charge bool
	done   chan outcome // of one, so that a worker need not wait for a caller who has left
}

type outcome struct {
	decision core.Decision
	err      error
}

// decide waits for the decision on one request, until ctx ends.
func (b *batches) decide(ctx context.Context, c *counts, key string, cost int64, charge bool) (core.Decision, error) {
	one := &call{ctx, c, key, cost, charge, make(chan outcome, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, one)
	if b.workers < maxWorkers {
		b.workers++
		go b.work()
	}
	b.mu.Unlock()
	select {
	case o := <-one.done:
		return o.decision, o.err
	case <-ctx.Done():
		return core.Decision{}, ended(ctx)
	}
}

// work decides batches until nothing waits.
func (b *batches) work() {
	var batch []*call
	for {
		b.mu.Lock()
		n := min(len(b.waiting), maxBatch)
		if b.apart.Load() {
			n = min(n, 1)
		}
		if n == 0 {
			b.workers--
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		batch = append(batch[:0], b.waiting[:n]...)
		clear(b.waiting[:n])
		b.waiting = b.waiting[n:]
		b.mu.Unlock()
		b.run(batch)
	}
}

// run decides a batch. It lasts as long as the most patient of its callers and
// no shorter than a server may be expected to take; no caller's leaving ends it
// for the others.
func (b *batches) run(batch []*call) {
	args := make([]any, 3, 3+len(batch)*(len(batch[0].counts.suffixes)+1+len(batch[0].counts.args)))
	deadline := time.Now().Add(core.DefaultTimeout)
	live := batch[:0]
	for _, c := range batch {
		if c.ctx.Err() != nil {
			continue // its caller has left
		}
		live = append(live, c)
		args = c.counts.keys(args, c.key)
		if d, ok := c.ctx.Deadline(); !ok {
			deadline = time.Now().Add(time.Hour)
		} else if d.After(deadline) {
			deadline = d
		}
	}
	if len(live) == 0 {
		return
	}
	args[0], args[1], args[2] = "evalsha", b.script.sha, strconv.Itoa(len(args)-3)
	for _, c := range live {
		args = c.counts.arguments(args, c.cost, c.charge)
	}
	ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(live[0].ctx), deadline, core.ErrTimeout)
	defer cancel()
	done, err := b.breaker.Allow()
	if err != nil {
		b.answer(live, "", errOpen)
		return
	}
	reply, err := b.client.evalNow(ctx, args[3].(string), args, b.script.source)
	done(err)
	if len(live) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT") {
		// A cluster, or a proxy to one, behind a client for a single server:
		// nothing has run, and this goes on a request at a time.
		b.apart.Store(true)
		for i := range live {
			b.run(live[i : i+1])
		}
		return
	}
	b.answer(live, reply, err)
}

// answer gives each caller its part of the reply.
func (b *batches) answer(batch []*call, reply string, err error) {
	var now int64
	if err == nil {
		now, reply, err = readTime(reply)
	}
	for _, c := range batch {
		o := outcome{err: err}
		if err == nil {
			o.decision, reply, o.err = c.counts.read(reply, now, c.cost, c.charge)
			if errors.Is(o.err, errReply) {
				err = o.err // where the next part begins is not known
			}
		}
		c.done <- o
	}
}

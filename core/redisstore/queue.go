package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// queue is where requests wait that are decided together. Nobody waits for
// company: a request that finds a worker free is sent alone, and those that
// come while all workers are under way are taken along by the next.
type queue struct {
	// run decides a batch and answers each call in it.
	run func([]*call)

	mu      sync.Mutex
	waiting []*call
	workers int
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
	done   chan outcome // holds one, so that a worker need not wait for a caller who has left
}

type outcome struct {
	decision core.Decision
	err      error
}

// decide waits for the decision on one request, until ctx ends.
func (q *queue) decide(ctx context.Context, c *counts, key string, cost int64, charge bool) (core.Decision, error) {
	one := &call{ctx, c, key, cost, charge, make(chan outcome, 1)}
	q.mu.Lock()
	q.waiting = append(q.waiting, one)
	if q.workers < maxWorkers {
		q.workers++
		go q.work()
	}
	q.mu.Unlock()
	select {
	case o := <-one.done:
		return o.decision, o.err
	case <-ctx.Done():
		return core.Decision{}, ended(ctx)
	}
}

// work has batches run until nothing waits. It leaves out those whose callers
// have left.
func (q *queue) work() {
	var batch []*call
	for {
		batch = batch[:0]
		q.mu.Lock()
		taken := 0
		for ; taken < len(q.waiting) && len(batch) < maxBatch; taken++ {
			if c := q.waiting[taken]; c.ctx.Err() == nil {
				batch = append(batch, c)
			}
			q.waiting[taken] = nil
		}
		q.waiting = q.waiting[taken:]
		if len(batch) == 0 {
			q.workers--
			q.waiting = nil
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		q.run(batch)
	}
}

// patience is a context for a batch: it lasts as long as the most patient of
// its callers and no shorter than a server may be expected to take. No caller's
// leaving ends it for the others.
func patience(batch []*call) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(batch[0].ctx)
	deadline := time.Now().Add(core.DefaultTimeout)
	for _, c := range batch {
		d, ok := c.ctx.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if d.After(deadline) {
			deadline = d
		}
	}
	return context.WithDeadlineCause(ctx, deadline, core.ErrTimeout)
}

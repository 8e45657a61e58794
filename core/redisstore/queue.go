package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// queue is where requests wait that are decided together. Nobody waits for
// company: a request that finds a worker free is sent alone, and those that
// come while all workers are under way are taken along by the next.
type queue struct {
	// run decides a batch, answers each call in it, and returns true; or false
	// if its patience ended before, and has called replace at that moment.
	run func([]*call) bool

	mu      sync.Mutex
	waiting []*call
	single  bool // batches are of one request
	workers int  // at work, or idle
	idle    int
	spare   int       // the fewest that were idle since retire last looked
	wake    chan bool // one for each worker that is idle no more: whether there is work

	// answered are calls to use again. One whose caller has left is not among
	// them: a worker may have it.
	answered sync.Pool
}

const (
	maxBatch   = 32 // more keep the server from others for too long
	maxWorkers = 3  // by measurement, with 64 callers on two processors

	// A worker that has been idle for so long ends. Starting one takes longer
	// than waking one, most of all to let its stack grow.
	idleTime = 100 * time.Millisecond
)

func (q *queue) init(run func([]*call) bool) { q.run, q.wake = run, make(chan bool, maxWorkers) }

// call is a request that waits for its part of a batch's reply.
type call struct {
	ctx      context.Context
	deadline time.Time // or zero
	counts   *counts
	key      string
	cost     int64
	charge   bool
	args     []any

	left     atomic.Bool // its caller does not wait any more
	decision core.Decision
	err      error
	done     chan struct{} // holds one, so that a worker need not wait for a caller who has left
	timer    *time.Timer   // one for all who use the call
}

// answer must be the last that a worker does with a call.
func (c *call) answer(d core.Decision, err error) {
	c.decision, c.err = d, err
	c.done <- struct{}{}
}

// decide waits for the decision on one request, until ctx ends or the deadline
// has passed. args are the script's call for it, where it has one of its own.
func (q *queue) decide(ctx context.Context, deadline time.Time, counts *counts, key string, cost int64, charge bool, args []any) (core.Decision, error) {
	c, _ := q.answered.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	}
	var late <-chan time.Time
	if deadline.IsZero() {
		deadline, _ = ctx.Deadline()
	} else {
		c.timer.Reset(time.Until(deadline))
		late = c.timer.C
	}
	c.ctx, c.deadline, c.counts, c.key, c.cost, c.charge, c.args = ctx, deadline, counts, key, cost, charge, args
	q.add(c)
	select {
	case <-c.done:
		d, err := c.decision, c.err
		c.ctx, c.counts, c.key, c.args, c.err = nil, nil, "", nil, nil
		if late == nil || c.timer.Stop() {
			q.answered.Put(c)
		}
		return d, err
	case <-ctx.Done():
		c.left.Store(true)
		return core.Decision{}, ended(ctx)
	case <-late:
		c.left.Store(true)
		return core.Decision{}, errLate
	}
}

// add has a worker free to take c, if there is one.
func (q *queue) add(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
	switch {
	case q.idle > 0:
		q.idle--
		q.spare = min(q.spare, q.idle)
		q.wake <- true
	case q.workers < maxWorkers:
		if q.workers == 0 {
			time.AfterFunc(idleTime, q.retire)
		}
		q.workers++
		go q.work()
	}
}

// work has batches run until there is no need for this worker any more.
func (q *queue) work() {
	var batch []*call
	for more := true; more; {
		if len(batch) > 1 {
			// In a crowd, those who have just been answered mostly come again:
			// let them, and whoever else is ready to run, do so first.
			runtime.Gosched()
		}
		batch = q.take(batch[:0])
		if len(batch) > 0 {
			more = q.run(batch)
		} else {
			more = <-q.wake
		}
	}
}

// take moves what waits to batch, without those whose callers have left. If
// that is nothing, the worker that asked is idle.
func (q *queue) take(batch []*call) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(batch) == 0 && len(q.waiting) > 0 {
		n := min(len(q.waiting), maxBatch)
		if q.single {
			n = 1
		}
		for _, c := range q.waiting[:n] {
			if !c.left.Load() {
				batch = append(batch, c)
			}
		}
		q.waiting = slices.Delete(q.waiting, 0, n)
	}
	if len(batch) == 0 {
		q.idle++
	}
	return batch
}

// retire ends the workers that have not been needed since it last looked, and
// looks again while there are others.
func (q *queue) retire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range q.spare {
		q.wake <- false
	}
	q.workers -= q.spare
	q.idle -= q.spare
	q.spare = q.idle
	if q.workers > 0 {
		time.AfterFunc(idleTime, q.retire)
	} else {
		q.waiting = nil // nothing waits; it may have been much
	}
}

// replace puts another worker in the place of one that is stuck.
func (q *queue) replace() { go q.work() }

// split takes back a batch that has not run. From now on each goes by itself.
func (q *queue) split(batch []*call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.single = true
	q.waiting = slices.Insert(q.waiting, 0, batch...)
}

// patience is the context of what is done for a batch. It lasts as long as the
// most patient of its callers and no shorter than a server may be expected to
// take. No caller's leaving ends it for the others.
type patience struct {
	context.Context // the values of the first caller's
	deadline        time.Time
	over            chan struct{}
	timer           *time.Timer // nil if it never ends
}

// errLate says that a batch's patience has ended.
var errLate = fmt.Errorf("sash: waiting for Redis: %w", core.ErrTimeout)

// newPatience returns one that calls late when it ends before it is stopped.
func newPatience(batch []*call, late func()) *patience {
	p := &patience{Context: context.WithoutCancel(batch[0].ctx), over: make(chan struct{})}
	now := time.Now()
	p.deadline = now.Add(core.DefaultTimeout)
	for _, c := range batch {
		if c.deadline.IsZero() {
			p.deadline = time.Time{}
			return p
		}
		if c.deadline.After(p.deadline) {
			p.deadline = c.deadline
		}
	}
	p.timer = time.AfterFunc(p.deadline.Sub(now), func() {
		close(p.over)
		late()
	})
	return p
}

// stop says whether it came before the end.
func (p *patience) stop() bool { return p.timer == nil || p.timer.Stop() }

func (p *patience) Deadline() (time.Time, bool) { return p.deadline, p.timer != nil }
func (p *patience) Done() <-chan struct{}       { return p.over }
func (p *patience) Err() error {
	select {
	case <-p.over:
		return errLate
	default:
		return nil
	}
}

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
	// if its patience ended before.
	run func([]*call) bool

	mu      sync.Mutex
	waiting []*call
	workers int // at work, or idle; without those that have been replaced
	idle    int
	spare   int           // the fewest that were idle since retire last looked
	wake    chan bool     // one for each worker that is idle no more: whether there is work
	took    time.Duration // the batch that ended last
	moved   time.Time     // when one was decided, or a worker was replaced
	sent    time.Time     // when the newest was sent that has been decided
	usual   time.Duration // and how long that took
	grow    bool          // whether one has ended since there was one worker more

	// One timer for all callers, who mostly are answered before it fires.
	running []*worker // all, replaced ones too
	late    *time.Timer
	lateAt  time.Time // when it fires; zero: it does not

	// answered are calls to use again. One whose caller has left is not among
	// them: a worker may have it.
	answered sync.Pool
}

// worker has what it works on, and since when. The queue's lock guards it, the
// calls as such excepted and late, which only the worker itself uses.
type worker struct {
	batch    []*call
	since    time.Time
	late     bool // patience with the batch ended before it did
	replaced bool // it takes so long that another works in its place
}

const (
	maxBatch    = 32           // more keep the server from others for too long
	maxWorkers  = 3            // by measurement, with 64 callers on two processors
	mostWorkers = 16           // while crowds wait, and batches are prompt
	crowd       = 2 * maxBatch // of waiting requests

	// A worker that has been idle for so long ends. Starting one takes longer
	// than waking one, most of all to let its stack grow.
	idleTime = 100 * time.Millisecond

	// How often, at most, it is looked who has waited for too long: with many
	// callers that takes a while.
	latePause = 250 * time.Microsecond

	// If no batch is decided for so long, nor for twice as long as is usual,
	// a worker that has been under way for that long is replaced, and another after
	// as long again: their callers may be patient, and those who come later are not
	// to wait for them. For a server that is just slow, more workers are too many;
	// but a worker that others have overtaken is replaced whatever they decide.
	slow = 20 * time.Millisecond

	// Batches that take longer are not sent by more workers: it may be that the
	// server has too much to do.
	prompt = core.DefaultTimeout / 2
)

func (q *queue) init(run func([]*call) bool) { q.run, q.wake = run, make(chan bool, mostWorkers) }

// call is a request that waits for its part of a batch's reply.
type call struct {
	ctx      context.Context
	deadline time.Time // or zero
	counts   *counts
	key      string
	cost     int64
	charge   bool
	args     []any

	settled  atomic.Bool // whoever makes it true, has the last word
	late     bool        // it was the timer
	decision core.Decision
	err      error
	done     chan struct{} // holds one, so that a worker need not wait
}

// answer must be the last that a worker does with a call.
func (c *call) answer(d core.Decision, err error) {
	if c.settled.CompareAndSwap(false, true) {
		c.decision, c.err = d, err
		c.done <- struct{}{}
	}
}

// expire answers that it has taken too long.
func (c *call) expire() {
	if c.settled.CompareAndSwap(false, true) {
		c.late, c.decision, c.err = true, core.Decision{}, errLate
		c.done <- struct{}{}
	}
}

// decide waits for the decision on one request, until ctx ends or the deadline
// has passed; the zero time is none. args are the script's call for it, where it
// has one of its own.
func (q *queue) decide(ctx context.Context, deadline time.Time, counts *counts, key string, cost int64, charge bool, args []any) (core.Decision, error) {
	c, _ := q.answered.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	q.mu.Lock() // which look needs, to see calls that are used again as they are
	c.ctx, c.deadline, c.counts, c.key, c.cost, c.charge, c.args = ctx, deadline, counts, key, cost, charge, args
	c.settled.Store(false)
	q.add(c)
	q.mu.Unlock()
	if over := ctx.Done(); over == nil {
		<-c.done
	} else {
		select {
		case <-c.done:
		case <-over:
			if c.settled.CompareAndSwap(false, true) {
				return core.Decision{}, ended(ctx)
			}
			<-c.done
		}
	}
	d, err := c.decision, c.err
	if !c.late {
		c.ctx, c.counts, c.key, c.args, c.err = nil, nil, "", nil, nil
		q.answered.Put(c)
	}
	return d, err
}

// add has a worker free to take c, if there is one, and the timer look after it.
func (q *queue) add(c *call) {
	q.waiting = append(q.waiting, c)
	switch {
	case q.idle > 0:
		q.idle--
		q.spare = min(q.spare, q.idle)
		q.wake <- true
	case q.workers < maxWorkers, q.workers < mostWorkers && len(q.waiting) > crowd && q.grow && q.took < prompt:
		q.grow = false
		if q.workers == 0 {
			time.AfterFunc(idleTime, q.retire)
		}
		q.workers++
		go q.work()
	}
	if !c.deadline.IsZero() && q.earlier(c.deadline) {
		q.lookAt(c.deadline, time.Until(c.deadline))
	}
}

// earlier says whether the timer is to fire at a time before it does.
func (q *queue) earlier(at time.Time) bool { return q.lateAt.IsZero() || at.Before(q.lateAt) }

// lookAt has the timer fire, at a time which is so far away.
func (q *queue) lookAt(at time.Time, after time.Duration) {
	q.lateAt = at
	if q.late == nil {
		q.late = time.AfterFunc(after, q.look)
	} else {
		q.late.Reset(after)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// look answers those who have waited for too long, and replaces workers that
// have.
func (q *queue) look() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.lateAt = time.Time{}
	again := func(at time.Time) {
		if q.earlier(at) {
			q.lateAt = at
		}
	}
	expire := func(calls []*call) {
		for _, c := range calls {
			switch {
			case c.settled.Load() || c.deadline.IsZero():
			case c.deadline.After(now):
				again(c.deadline)
			default:
				c.expire()
			}
		}
	}
	stuck := max(slow, 2*q.usual)
	expire(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(c *call) bool { return c.settled.Load() })
	for _, w := range q.running {
		expire(w.batch)
		if len(w.batch) == 0 || w.replaced {
			continue
		}
		at := w.since
		if !at.Before(q.sent) { // else others have overtaken it
			at = later(at, q.moved)
		}
		if at = at.Add(stuck); at.After(now) {
			again(now.Add(min(at.Sub(now), slow))) // by then another may have been decided faster
		} else {
			w.replaced, q.moved = true, now
			go q.work()
		}
	}
	if !q.lateAt.IsZero() {
		q.lookAt(q.lateAt, max(q.lateAt.Sub(now), latePause))
	}
}

// work has batches run until there is no need for this worker any more.
func (q *queue) work() {
	w := &worker{batch: make([]*call, 0, maxBatch)}
	q.mu.Lock()
	q.running = append(q.running, w)
	q.mu.Unlock()
	for q.take(w) {
		if len(w.batch) == 0 {
			if !<-q.wake {
				break
			}
			continue
		}
		w.late = !q.run(w.batch)
		if w.late {
			for _, c := range w.batch { // nobody was more patient
				if !c.deadline.IsZero() {
					c.expire()
				}
			}
		}
		if len(w.batch) > 1 {
			// In a crowd, those who have just been answered mostly come again:
			// let them, and whoever else is ready to run, do so first.
			runtime.Gosched()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = slices.DeleteFunc(q.running, func(other *worker) bool { return other == w })
}

// take gives w what waits, without those whose callers have left or whose time is
// over. If that is nothing, w is idle. It is false for one that is to end.
//
// Who came first is first, unless it is too late for that one: then the newest
// are, who have the most time left. Else, where more come than can be decided,
// all would be decided just after they have given up.
func (q *queue) take(w *worker) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	comes := len(w.batch) > 0 // from a batch; else it is new, or has been woken for a request
	w.batch = w.batch[:0]
	if comes {
		q.took, q.grow = now.Sub(w.since), true
		if !w.late {
			q.moved = now
			if !w.since.Before(q.sent) { // a reply that others overtook tells what is unusual
				q.sent, q.usual = w.since, q.took
			}
		}
	}
	switch {
	case w.replaced:
		return false
	case comes && q.workers > maxWorkers && q.took >= prompt: // more than the server can take at a time
		q.workers--
		return false
	}
	for len(w.batch) == 0 && len(q.waiting) > 0 {
		from, to := 0, min(len(q.waiting), maxBatch)
		if first := q.waiting[0].deadline; !first.IsZero() && first.Sub(now) < 2*q.took {
			from, to = len(q.waiting)-to, len(q.waiting)
		}
		for _, c := range q.waiting[from:to] {
			if !c.deadline.IsZero() && !c.deadline.After(now) {
				c.expire() // ahead of the timer: it would be charged in vain
			}
			if !c.settled.Load() {
				w.batch = append(w.batch, c)
			}
		}
		q.waiting = slices.Delete(q.waiting, from, to)
	}
	if len(w.batch) == 0 {
		q.idle++
		return true
	}
	w.since = now
	if at := w.since.Add(slow); q.earlier(at) {
		q.lookAt(at, slow)
	}
	return true
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
	} else if len(q.waiting) == 0 {
		q.waiting = nil // it may have been much
	}
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
		d, ok := c.deadline, true
		if d.IsZero() {
			d, ok = c.ctx.Deadline()
		}
		if !ok {
			p.deadline = time.Time{}
			return p
		}
		if d.After(p.deadline) {
			p.deadline = d
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

// judge makes an error of the connection errLate where patience is at its end:
// both have the same deadline, and the connection may be the first to notice.
func (p *patience) judge(err error) error {
	if err != nil && !isReply(err) && p.timer != nil && !time.Now().Before(p.deadline) {
		return errLate
	}
	return err
}

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

package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
)

// echo answers each call of a batch with its cost.
func echo(batch []*call) bool {
	for _, c := range batch {
		c.answer(core.Decision{Remaining: c.cost}, nil)
	}
	return true
}

// TestQueueAnswers: callers who leave, or whose time is over, at any moment,
// neither get an answer meant for another nor leave theirs to one.
func TestQueueAnswers(t *testing.T) {
	var q queue
	q.init(func(batch []*call) bool {
		runtime.Gosched() // while some leave
		return echo(batch)
	})
	var answered, left, late atomic.Int64
	var group sync.WaitGroup
	for worker := range 32 {
		group.Go(func() {
			for i := range 500 {
				cost := int64(worker*1000 + i)
				ctx, leave := context.WithCancel(context.Background())
				var deadline time.Time
				switch i % 4 {
				case 0:
					group.Go(leave)
				case 1:
					deadline = time.Now().Add(time.Duration(i) * time.Microsecond / 4)
				case 2:
					deadline = time.Now().Add(time.Hour)
				}
				d, err := q.decide(ctx, deadline, nil, "", cost, true, nil)
				switch {
				case err == nil && d.Remaining == cost:
					answered.Add(1)
				case err != nil && isCallers(err) && i%4 == 0:
					left.Add(1)
				case errors.Is(err, core.ErrTimeout) && !isCallers(err) && i%4 == 1:
					late.Add(1)
				default:
					t.Errorf("%d: %+v, %v", cost, d, err)
				}
				leave()
			}
		})
	}
	group.Wait()
	if left.Load() == 0 || late.Load() == 0 || answered.Load() < 8000 {
		t.Errorf("%d were answered, %d left, for %d it was too late", answered.Load(), left.Load(), late.Load())
	}
}

// TestQueueWorkers: workers take along what waits, are replaced when they are
// stuck, and end when they are idle.
func TestQueueWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		var sizes []int
		unstick := make(chan bool)
		var stuck atomic.Bool
		stuck.Store(true)
		busy := time.Duration(0)
		q.init(func(batch []*call) bool {
			if stuck.Load() {
				<-unstick
				return false
			}
			sizes = append(sizes, len(batch))
			time.Sleep(busy)
			return echo(batch)
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		ask := func(n int, want error) (ended *sync.WaitGroup) {
			ended = new(sync.WaitGroup)
			for i := range n {
				ended.Go(func() {
					if d, err := q.decide(ctx, time.Time{}, nil, "", int64(i), true, nil); !errors.Is(err, want) || err == nil && d.Remaining != int64(i) {
						t.Errorf("%d: %+v, %v", i, d, err)
					}
				})
				synctest.Wait() // each finds all that came before it under way or waiting
			}
			return ended
		}
		workers := func(want, wantIdle int) {
			t.Helper()
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.workers != want || q.idle != wantIdle {
				t.Errorf("%d workers, %d of them idle; want %d, %d", q.workers, q.idle, want, wantIdle)
			}
		}
		wait := ask(maxWorkers+2, context.DeadlineExceeded)
		workers(maxWorkers, 0)
		wait.Wait()
		time.Sleep(2 * time.Second)
		stuck.Store(false)
		ctx = context.Background()
		ask(2*maxWorkers, nil).Wait()
		if len(sizes) != 2*maxWorkers {
			t.Errorf("one at a time went in batches of %v", sizes)
		}
		time.Sleep(3 * idleTime)
		workers(0, 0)
		ask(1, nil).Wait() // they come again
		time.Sleep(3 * idleTime / 2)
		workers(1, 1)
		busy = 2 * idleTime
		wait = ask(1, nil)
		time.Sleep(slow / 2)
		workers(1, 0)
		time.Sleep(slow)
		workers(1, 1) // another, in its place
		wait.Wait()
		close(unstick)
		time.Sleep(3 * idleTime) // till the workers have ended
	})
}

// TestQueueSlow: whoever comes while others are patient with a server that does
// not answer them, waits a moment for a worker and no longer.
func TestQueueSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		q.init(func(batch []*call) bool {
			if batch[0].cost < 0 {
				time.Sleep(10 * time.Second)
			}
			return echo(batch)
		})
		var group sync.WaitGroup
		ask := func(cost int64, most time.Duration) {
			group.Go(func() {
				start := time.Now()
				d, err := q.decide(context.Background(), start.Add(time.Minute), nil, "", cost, true, nil)
				if took := time.Since(start); err != nil || d.Remaining != cost || took > most {
					t.Errorf("%d: %+v, %v after %v, want at most %v", cost, d, err, took, most)
				}
			})
			synctest.Wait()
		}
		for range maxWorkers {
			ask(-1, 10*time.Second)
		}
		for range 20 {
			for i := range int64(2 * maxBatch) {
				ask(i, slow+latePause)
			}
			time.Sleep(slow)
		}
		group.Wait()
		time.Sleep(3 * idleTime)
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.workers != 0 || q.idle != 0 || len(q.running) != 0 {
			t.Errorf("%d workers, %d idle, %d running are left", q.workers, q.idle, len(q.running))
		}
	})
}

// TestQueueStuckEnd: that those who were patient in vain have given up, one after
// another, moves nothing: who comes meanwhile waits no longer for a worker.
func TestQueueStuckEnd(t *testing.T) {
	const many, pause = 40, slow * 3 / 4
	synctest.Test(t, func(t *testing.T) {
		var q queue
		start := time.Now()
		gaveUp := start.Add(time.Minute)
		q.init(func(batch []*call) bool {
			if patient := batch[0].cost; patient > 0 {
				time.Sleep(time.Until(gaveUp.Add(time.Duration(patient) * pause)))
				return false
			}
			return echo(batch)
		})
		var group sync.WaitGroup
		ask := func(cost int64) (took time.Duration) {
			began := time.Now()
			deadline := gaveUp.Add(time.Hour)
			if cost > 0 {
				deadline = gaveUp.Add(time.Duration(cost) * pause)
			}
			if _, err := q.decide(context.Background(), deadline, nil, "", cost, true, nil); (err == nil) != (cost == 0) {
				t.Errorf("%d: %v", cost, err)
			}
			return time.Since(began)
		}
		for i := range int64(many) {
			group.Go(func() { ask(1 + i) })
			time.Sleep(slow + latePause) // till another worker is there
		}
		time.Sleep(time.Until(gaveUp))
		for range maxWorkers {
			group.Go(func() { ask(many + 1) })
			synctest.Wait()
		}
		if took := ask(0); took > slow+latePause {
			t.Errorf("waited %v for a worker", took)
		}
		group.Wait()
		time.Sleep(3 * idleTime) // till the workers have ended
	})
}

// TestQueueOvertaken: all whose batches others have overtaken are replaced, not just
// one: else few workers would be left where replies are lost and callers patient.
func TestQueueOvertaken(t *testing.T) {
	const way = 60 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var q queue
		most := 0
		q.init(func(batch []*call) bool {
			q.mu.Lock()
			most = max(most, len(q.running))
			q.mu.Unlock()
			if batch[0].cost < 0 {
				time.Sleep(time.Minute) // the reply is lost
				return false
			}
			time.Sleep(way)
			return echo(batch)
		})
		var group sync.WaitGroup
		start := time.Now()
		ask := func(cost int64) {
			began := time.Now()
			_, err := q.decide(context.Background(), began.Add(time.Minute), nil, "", cost, true, nil)
			if took := time.Since(began); cost > 0 && (err != nil || began.Sub(start) > 10*way && took > 3*way) {
				t.Errorf("%v after the start: %v after %v", began.Sub(start), err, took)
			}
		}
		ask(1) // which tells how long it takes
		for range maxWorkers {
			group.Go(func() { ask(-1) })
			synctest.Wait()
		}
		for range 2000 {
			group.Go(func() { ask(1) })
			time.Sleep(time.Millisecond)
		}
		group.Wait()
		if most > 2*maxWorkers {
			t.Errorf("%d batches were under way", most)
		}
		time.Sleep(3 * idleTime)
	})
}

// TestQueueLateReply: a reply that comes long after those to newer batches does not
// make it usual that it takes so long: who comes then waits for a worker no longer.
func TestQueueLateReply(t *testing.T) {
	const late = 100 * slow
	synctest.Test(t, func(t *testing.T) {
		var q queue
		q.init(func(batch []*call) bool {
			switch batch[0].cost {
			case -1:
				time.Sleep(late)
			case -2:
				time.Sleep(time.Minute)
				return false
			}
			return echo(batch)
		})
		var group sync.WaitGroup
		ask := func(cost int64) (took time.Duration) {
			began := time.Now()
			_, err := q.decide(context.Background(), began.Add(time.Minute), nil, "", cost, true, nil)
			if (err == nil) != (cost > -2) {
				t.Errorf("%d: %v", cost, err)
			}
			return time.Since(began)
		}
		group.Go(func() { ask(-1) })
		time.Sleep(late - slow/2)
		ask(1)
		for range maxWorkers {
			group.Go(func() { ask(-2) })
			synctest.Wait()
		}
		time.Sleep(slow) // till the late reply has come
		if took := ask(1); took > slow+latePause {
			t.Errorf("waited %v for a worker", took)
		}
		group.Wait()
		time.Sleep(3 * idleTime) // till the workers have ended
	})
}

// TestQueueOverload: of more requests than can be decided, as many are in time as
// if there were no others; and where it is the way that is long, workers enough
// are under way.
func TestQueueOverload(t *testing.T) {
	const seconds, timeout = 2, 100 * time.Millisecond
	for name, test := range map[string]struct {
		way, batch time.Duration // that a batch takes, and for which it keeps all others waiting
		offered    int           // a second
		least      int           // answers in the last second
	}{
		"a slow server": {0, 10 * time.Millisecond, 6400, 2000},
		"far too many":  {0, 10 * time.Millisecond, 16_000, 2000},
		"a long way":    {15 * time.Millisecond, 0, 20_000, 19_000},
		"a longer way":  {40 * time.Millisecond, 0, 10_000, 9000},
		"too long":      {60 * time.Millisecond, 0, 10_000, 1500},
		"slower still":  {0, 20 * time.Millisecond, 10_000, 1000},
		"slowest":       {0, 30 * time.Millisecond, 10_000, 800},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q queue
				server := make(chan bool, 1)
				q.init(func(batch []*call) bool {
					server <- true
					time.Sleep(test.batch)
					<-server
					time.Sleep(test.way)
					return echo(batch)
				})
				start := time.Now()
				var group sync.WaitGroup
				var answered atomic.Int64
				for i := range seconds * test.offered {
					time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(test.offered))))
					group.Go(func() {
						if _, err := q.decide(context.Background(), time.Now().Add(timeout), nil, "", 1, true, nil); err == nil && i >= (seconds-1)*test.offered {
							answered.Add(1)
						}
					})
				}
				group.Wait()
				if n := answered.Load(); n < int64(test.least) {
					t.Errorf("%d of %d were answered, want at least %d", n, test.offered, test.least)
				} else {
					t.Logf("%d of %d were answered", n, test.offered)
				}
				time.Sleep(3 * idleTime)
				q.mu.Lock()
				defer q.mu.Unlock()
				if q.workers != 0 || q.idle != 0 || len(q.running) != 0 || len(q.waiting) != 0 {
					t.Errorf("%d workers, %d idle, %d running, %d waiting are left", q.workers, q.idle, len(q.running), len(q.waiting))
				}
			})
		})
	}
}

// TestQueueShrinks: workers that crowds had started end when batches take long,
// and never one that has been woken for a request.
func TestQueueShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		var way atomic.Int64
		q.init(func(batch []*call) bool {
			time.Sleep(time.Duration(way.Load()))
			return echo(batch)
		})
		var group sync.WaitGroup
		ask := func(deadline time.Time) {
			if _, err := q.decide(context.Background(), deadline, nil, "", 1, true, nil); err != nil {
				t.Error(err)
			}
		}
		workers := func() int {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.workers
		}
		for round := range 4 {
			way.Store(int64(15 * time.Millisecond))
			for range 20 { // crowds
				for range 10 * maxBatch {
					group.Go(func() { ask(time.Now().Add(time.Minute)) })
				}
				time.Sleep(time.Millisecond)
			}
			group.Wait()
			if n := workers(); n <= maxWorkers {
				t.Errorf("crowds have %d workers", n)
			}
			way.Store(int64(2 * prompt))
			for range 1 + round { // all others are idle
				group.Go(func() { ask(time.Now().Add(2*prompt + slow)) })
			}
			group.Wait()
			for range 3 {
				ask(time.Now().Add(2*prompt + slow))
			}
			if n := workers(); n > maxWorkers {
				t.Errorf("%d workers where batches take %v", n, 2*prompt)
			}
		}
		time.Sleep(3 * idleTime)
	})
}

// TestQueueExpires: each caller waits as long as its own deadline says, whether
// its request is under way or waiting, and whoever is with it there.
func TestQueueExpires(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var q queue
		answer := make(chan bool)
		q.init(func(batch []*call) bool {
			<-answer
			return echo(batch)
		})
		var group sync.WaitGroup
		ask := func(cost int64, ctx context.Context, timeout, want time.Duration, failure error) {
			group.Go(func() {
				start := time.Now()
				var deadline time.Time
				if timeout > 0 {
					deadline = start.Add(timeout)
				}
				d, err := q.decide(ctx, deadline, nil, "", cost, true, nil)
				if took := time.Since(start); took < want || took > want+latePause || !errors.Is(err, failure) || err == nil && d.Remaining != cost {
					t.Errorf("%d, with %v: %+v, %v after %v; want %v after %v", cost, timeout, d, err, took, failure, want)
				}
			})
			synctest.Wait()
		}
		for round := range int64(3) { // calls are used again
			background := context.Background()
			leaves, leave := context.WithTimeout(background, 2*ms)
			ask(round+10, background, 50*ms, 50*ms, core.ErrTimeout)
			ask(round+20, background, 5*ms, 5*ms, core.ErrTimeout)
			ask(round+30, background, 0, 60*ms, nil)
			ask(round+40, background, 7*ms, 7*ms, core.ErrTimeout) // from here on all workers are busy
			ask(round+50, leaves, 9*ms, 2*ms, context.DeadlineExceeded)
			ask(round+60, background, 3*ms, 3*ms, core.ErrTimeout)
			ask(round+70, background, time.Hour, 60*ms, nil)
			ask(round+80, leaves, 1*ms, 1*ms, core.ErrTimeout)
			for i := range 20 {
				timeout := time.Duration(20-i) * ms / 7
				ask(round+100+int64(i), background, timeout, timeout, core.ErrTimeout)
			}
			time.Sleep(60 * ms)
			for range 4 { // batches: three of one call, and one of those who are left
				answer <- true
			}
			group.Wait()
			leave()
		}
		time.Sleep(2 * time.Hour) // till the timer has seen that nobody waits
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.lateAt.IsZero() || len(q.running) > 0 {
			t.Errorf("the timer waits for %v, %d workers are still there", q.lateAt, len(q.running))
		}
	})
}

// TestQueueStuck: when a stuck worker ends, nobody waits for it any more, though
// the timer has not come to look yet.
func TestQueueStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		start := time.Now()
		q.init(func(batch []*call) bool {
			time.Sleep(time.Until(start.Add(time.Second + latePause/2)))
			return false
		})
		var group sync.WaitGroup
		for _, more := range []time.Duration{0, latePause / 4} { // the first makes the timer pause
			group.Go(func() {
				_, err := q.decide(context.Background(), start.Add(time.Second+more), nil, "", 1, true, nil)
				if took := time.Since(start); !errors.Is(err, core.ErrTimeout) || took < time.Second+more || took > time.Second+latePause {
					t.Errorf("%v after %v", err, took)
				}
			})
		}
		group.Wait()
		time.Sleep(3 * idleTime) // till the workers have ended
	})
}

// TestQueueTooLate: a request whose time is over is not sent: it would be charged
// in vain. Who has waited for a lease may come so late.
func TestQueueTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		q.init(func(batch []*call) bool {
			for _, c := range batch {
				if c.cost < 0 {
					t.Error("sent too late")
				}
			}
			return echo(batch)
		})
		for range 3 {
			if _, err := q.decide(context.Background(), time.Now(), nil, "", -1, true, nil); !errors.Is(err, core.ErrTimeout) {
				t.Error(err)
			}
			if _, err := q.decide(context.Background(), time.Now().Add(1), nil, "", 1, true, nil); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(3 * idleTime) // till the workers have ended
	})
}

// TestQueueRandom: whatever callers and servers do, nobody waits for longer than
// said, and the queue is sound at all times.
func TestQueueRandom(t *testing.T) {
	random := func() time.Duration { return rand.N(time.Duration(2) << rand.N(30)) } // to two seconds, mostly much less
	play := func(t *testing.T) {
		var q queue
		q.init(func(batch []*call) bool {
			time.Sleep(random())
			return slices.ContainsFunc(batch, func(c *call) bool { return c.deadline.IsZero() || time.Now().Before(c.deadline) }) && echo(batch)
		})
		var group sync.WaitGroup
		ask := func(cost int64) {
			start, patience := time.Now(), time.Hour
			var deadline time.Time
			if rand.N(4) > 0 {
				patience = random()
				deadline = start.Add(patience)
			}
			ctx, leave := context.Background(), func() {}
			if rand.N(4) == 0 {
				stays := random()
				patience = min(patience, stays)
				ctx, leave = context.WithTimeout(ctx, stays)
			}
			defer leave()
			d, err := q.decide(ctx, deadline, nil, "", cost, true, nil)
			if took := time.Since(start); took > patience+latePause || err == nil && d.Remaining != cost || err != nil && took < patience {
				t.Errorf("%d, with %v: %+v, %v after %v", cost, patience, d, err, took)
			}
		}
		for range 50 {
			for range rand.N(2 << rand.N(8)) { // a few, or a crowd
				group.Go(func() { ask(rand.Int64()) })
			}
			synctest.Wait()
			checkSound(t, &q)
			time.Sleep(random())
			synctest.Wait()
			checkSound(t, &q)
		}
		group.Wait()
		time.Sleep(3*idleTime + 2*time.Second) // till the workers have ended
		if checkSound(t, &q); q.workers > 0 || len(q.running) > 0 || len(q.waiting) > 0 || !q.lateAt.IsZero() {
			t.Errorf("%d workers, %d running, %d waiting are left, a timer till %v", q.workers, len(q.running), len(q.waiting), q.lateAt)
		}
	}
	for range 30 {
		synctest.Test(t, play)
	}
}

// checkSound checks, while nothing of q runs, that the numbers of workers are
// true, that who waits does so because all are busy, and that the timer comes for
// whoever and whatever it must.
func checkSound(t *testing.T, q *queue) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	var idle, busy int
	var due []time.Time
	calls := slices.Clone(q.waiting)
	for _, w := range q.running {
		calls = append(calls, w.batch...)
		switch {
		case w.replaced:
		case len(w.batch) == 0:
			idle++
		default:
			busy++
			stuck := max(slow, 2*q.usual)
			if w.since.Before(q.sent) { // which the timer finds at its next turn
				due = append(due, later(w.since.Add(stuck), q.moved.Add(slow)))
			} else {
				due = append(due, later(w.since, q.moved).Add(stuck))
			}
		}
	}
	for _, c := range calls {
		if !c.settled.Load() && !c.deadline.IsZero() {
			due = append(due, c.deadline)
		}
	}
	if q.workers != idle+busy || q.workers > mostWorkers || q.idle != idle || q.spare < 0 || q.spare > idle || len(q.wake) > 0 {
		t.Errorf("%d workers, %d idle, %d spare, %d to wake; there are %d idle, %d busy", q.workers, q.idle, q.spare, len(q.wake), idle, busy)
	}
	if len(q.waiting) > 0 && (idle > 0 || busy < maxWorkers) {
		t.Errorf("%d wait, and of the workers %d are idle, %d busy", len(q.waiting), idle, busy)
	}
	for _, at := range due {
		if q.lateAt.IsZero() || at.Before(q.lateAt) || time.Since(at) > latePause {
			t.Errorf("the timer is to fire at %v, at %v it was due for %v", q.lateAt, time.Now(), at)
		}
	}
}

func TestPatience(t *testing.T) {
	const most = 3 * core.DefaultTimeout
	for name, test := range map[string]struct {
		timeouts []time.Duration // of callers; 0: none
		want     time.Duration   // 0: it does not end
	}{
		"the most patient":        {[]time.Duration{core.DefaultTimeout, most, time.Millisecond}, most},
		"no shorter than default": {[]time.Duration{time.Millisecond}, core.DefaultTimeout},
		"no deadline":             {[]time.Duration{time.Millisecond, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				first, leave := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
				var batch []*call
				for i, timeout := range test.timeouts {
					c := &call{ctx: first}
					if i%2 == 0 && timeout > 0 {
						c.deadline = time.Now().Add(timeout)
					} else if timeout > 0 {
						var cancel context.CancelFunc
						c.ctx, cancel = context.WithTimeout(first, timeout)
						defer cancel()
					}
					batch = append(batch, c)
				}
				start := time.Now()
				var late time.Duration
				p := newPatience(batch, func() { late = time.Since(start) })
				leave()
				if p.Err() != nil || p.Value(key{}) != "value" {
					t.Errorf("when the first has left: %v, value %v", p.Err(), p.Value(key{}))
				}
				own, cancel := context.WithCancel(p) // as clients derive them
				defer cancel()
				refused := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
				if err := p.judge(refused); err != error(refused) {
					t.Errorf("an error of the connection became %v", err)
				}
				if deadline, ok := p.Deadline(); ok != (test.want > 0) || ok && deadline.Sub(start) != test.want {
					t.Errorf("the deadline is %v, %v after the start; want %v", ok, deadline.Sub(start), test.want)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if err := p.judge(refused); errors.Is(err, core.ErrTimeout) != (test.want > 0) {
					t.Errorf("after the end, an error of the connection is %v", err)
				}
				if late != test.want || (p.Err() != nil) != (test.want > 0) || (own.Err() != nil) != (test.want > 0) {
					t.Errorf("late after %v, want %v; %v, %v", late, test.want, p.Err(), own.Err())
				}
				if test.want > 0 && (!errors.Is(p.Err(), core.ErrTimeout) || !errors.Is(context.Cause(p), core.ErrTimeout) || isCallers(p.Err())) {
					t.Errorf("%v, because of %v", p.Err(), context.Cause(p))
				}
				if inTime := p.stop(); inTime != (test.want == 0) {
					t.Errorf("stopped in time: %v", inTime)
				}
				p = newPatience(batch, func() { t.Error("stopped, and late") })
				if !p.stop() {
					t.Error("not stopped in time")
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// TestBreakerClosed: what is kept beside the breaker's state follows it.
func TestBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(breakers).get("")
		tell := func(err error) {
			done, refused := b.Allow()
			if refused != nil {
				t.Fatal(refused)
			}
			done(err)
		}
		for i := range breakerFailures {
			if b.notClosed.Load() {
				t.Errorf("open after %d failures", i)
			}
			tell(errLate)
		}
		if !b.notClosed.Load() || b.State() != gobreaker.StateOpen {
			t.Errorf("%v after %d failures", b.State(), breakerFailures)
		}
		time.Sleep(2 * breakerPause)
		if b.State() != gobreaker.StateHalfOpen || !b.notClosed.Load() {
			t.Errorf("%v after a pause", b.State())
		}
		tell(nil)
		if b.State() != gobreaker.StateClosed || b.notClosed.Load() {
			t.Errorf("%v after a success", b.State())
		}
	})
}

// TestProbeOfTheHasty: whether a server is back is tried for as long as it may
// take, though the caller whose request tries it is in a hurry.
func TestProbeOfTheHasty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(breakers).get("")
		for range breakerFailures {
			done, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			done(errLate)
		}
		time.Sleep(breakerPause + 1)
		hasty, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, core.ErrTimeout)
		defer cancel()
		_, err := guarded(hasty, b, func(ctx context.Context) (string, error) {
			select {
			case <-time.After(core.DefaultTimeout * 9 / 10):
				return "", nil
			case <-ctx.Done():
				return "", ended(ctx)
			}
		})
		if !errors.Is(err, errOpen) {
			t.Errorf("the caller is told %v", err)
		}
		time.Sleep(core.DefaultTimeout)
		if b.notClosed.Load() {
			t.Error("the server was back, and the breaker is not closed")
		}
	})
}

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// TestNotTogether: what may have been counted is not sent again.
func TestNotTogether(t *testing.T) {
	for err, want := range map[replyError]bool{
		"CROSSSLOT Keys in request don't hash to the same slot":                              true,
		"NOPERM this user has no permissions to access one of the keys used as arguments":    true,
		"NOPERM No permissions to access a key":                                              true,
		"NOPERM ACL failure in script: User u has no permissions to run the 'ltrim' command": false,
		"ERR The user executing the script can't run this command or subcommand":             false,
		"OOM command not allowed when used memory > 'maxmemory'.":                            false,
	} {
		if got := notTogether(err); got != want {
			t.Errorf("%s: %v", err, got)
		}
	}
}

package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlines: each caller waits as long as its own deadline says, whether its call is under way or waiting, and
// whatever calls are with it there. A call that has not been sent until then has an error of its own.
func TestDeadlines(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan bool)
		var unanswered atomic.Int64 // batches
		q := New(byWorkers(func(batch []*testCall) bool {
			unanswered.Add(1)
			<-answer
			return echo(batch)
		}))
		var group sync.WaitGroup
		call := func(request int64, ctx context.Context, timeout, want time.Duration, failure error) {
			group.Go(func() {
				start := time.Now()
				var deadline time.Time
				if timeout > 0 {
					deadline = start.Add(timeout)
				}
				got, err := q.Do(ctx, deadline, &request)
				elapsed := time.Since(start)
				queued := errors.Is(err, errQueued)
				if elapsed < want || elapsed > want+timerPause || !errors.Is(err, failure) || queued != (failure == errQueued) ||
					err == nil && got != request {
					t.Errorf("%d: %d, %v after %v; want %v after %v", request, got, err, elapsed, failure, want)
				}
			})
			synctest.Wait()
		}
		for round := range int64(3) { // calls are used again
			background := context.Background()
			leaves, leave := context.WithTimeout(background, 2*ms)
			call(round+10, background, 50*ms, 50*ms, errLate)
			call(round+20, background, 5*ms, 5*ms, errLate)
			call(round+30, background, 0, 60*ms, nil)
			call(round+40, background, 7*ms, 7*ms, errLate)
			call(round+50, leaves, 9*ms, 2*ms, context.DeadlineExceeded) // from here on all slots are taken
			call(round+60, background, 3*ms, 3*ms, errQueued)
			call(round+70, background, time.Hour, 60*ms, nil)
			call(round+80, leaves, 1*ms, 1*ms, errQueued)
			for i := range 20 {
				timeout := time.Duration(20-i) * ms / 7
				call(round+100+int64(i), background, timeout, timeout, errQueued)
			}
			time.Sleep(60 * ms)
			for ; unanswered.Load() > 0; unanswered.Add(-1) {
				answer <- true
				synctest.Wait() // the next batch may begin
			}
			group.Wait()
			leave()
		}
		time.Sleep(2 * time.Hour) // until the timer has seen that no call waits
		checkEmpty(t, q)
		if !q.timer.at.IsZero() {
			t.Errorf("the timer fires at %v, want never", q.timer.at)
		}
	})
}

// TestTimerPauses: the deadlines of many callers, each a little later than the one before, take few runs of the timer.
func TestTimerPauses(t *testing.T) {
	const callers, step = 1000, 10 * time.Microsecond
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(func(batch []*testCall) bool {
			time.Sleep(time.Second)
			return false
		}))
		var group sync.WaitGroup
		var mu sync.Mutex
		ends := map[time.Time]bool{}
		for i := range callers {
			group.Go(func() {
				if _, err := ask(q, 1, time.Millisecond+time.Duration(i)*step); !errors.Is(err, errLate) {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ends[time.Now()] = true
			})
		}
		group.Wait()
		if most := int(callers*step/timerPause) + 1; len(ends) > most {
			t.Errorf("the timer ended calls at %d times, want at most %d", len(ends), most)
		}
		time.Sleep(2 * time.Second)
		checkEmpty(t, q)
	})
}

// TestTooLate: a call whose deadline has passed before it is sent is not sent: it would be served in vain.
func TestTooLate(t *testing.T) {
	for _, inline := range []time.Duration{0, time.Hour} {
		t.Run(inlineName(inline)[1:], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(byCallers(inline, func(batch []*testCall) bool {
					for _, c := range batch {
						if c.Request < 0 {
							t.Error("a call was sent after its deadline")
						}
					}
					return echo(batch)
				}))
				for range 3 {
					if _, err := q.Do(context.Background(), time.Now(), new(int64(-1))); err != errQueued {
						t.Error(err)
					}
					if _, err := ask(q, 1, 1); err != nil {
						t.Error(err)
					}
				}
				checkEmpty(t, q)
			})
		})
	}
}

// TestGivenUpByContext: a caller that has no deadline but a context is told that its context has ended, also when Serve
// gives up at that very moment.
func TestGivenUpByContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(func([]*testCall) bool {
			time.Sleep(time.Second)
			return false
		}))
		for range 50 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if _, err := q.Do(ctx, time.Time{}, new(int64(1))); !isLeft(err) {
				t.Errorf("%v, want that the context has ended", err)
			}
			cancel()
		}
		checkEmpty(t, q)
	})
}

// TestGivenUp: when Serve gives up, its callers do not wait any more, though the timer has not run yet.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		q := New(byWorkers(func([]*testCall) bool {
			time.Sleep(time.Until(start.Add(time.Second + timerPause/2)))
			return false
		}))
		var group sync.WaitGroup
		for _, more := range []time.Duration{0, timerPause / 4} { // the first makes the timer pause
			group.Go(func() {
				elapsed, err := ask(q, 1, time.Second+more)
				if !errors.Is(err, errLate) || elapsed < time.Second+more || elapsed > time.Second+timerPause/2 {
					t.Errorf("%v after %v, want %v after %v", err, elapsed, errLate, time.Second+more)
				}
			})
		}
		group.Wait()
		checkEmpty(t, q)
	})
}

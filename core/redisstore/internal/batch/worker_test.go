package batch

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// checkIdle checks how many workers are idle and how many slots are used.
func checkIdle(t *testing.T, q *testQueue, idle, used int) {
	t.Helper()
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.workers.idle != idle || q.slots.used != used {
		t.Errorf("%d workers are idle, %d slots used; want %d, %d", q.workers.idle, q.slots.used, idle, used)
	}
}

// TestWaitingCallsGoTogether: a call that finds a slot is served alone; those that find none go together, the oldest
// first, at most MaxBatch at a time. No more batches are under way than the server has connections.
func TestWaitingCallsGoTogether(t *testing.T) {
	for maxSlots, inline := range map[int]time.Duration{0: 0, minSlots: time.Hour, 1: time.Hour, 2: 0} {
		t.Run(fmt.Sprint(maxSlots, " slots, inline for ", inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var batches, want []string
				slots, answer := cmp.Or(maxSlots, minSlots), make(chan bool)
				config := byCallers(inline, func(batch []*testCall) bool {
					first, last := batch[0], batch[len(batch)-1]
					batches = append(batches, fmt.Sprintf("%d to %d, %v", first.Request, last.Request, first.inline))
					<-answer
					return echo(batch)
				})
				config.MaxSlots = maxSlots
				q := New(config)
				var group sync.WaitGroup
				for i := range int64(slots + MaxBatch + 5) {
					group.Go(func() {
						if _, err := ask(q, i, time.Minute); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				checkIdle(t, q, 0, slots) // no worker comes for calls that find no slot
				for range slots + 2 {
					answer <- true
					synctest.Wait()
				}
				group.Wait()
				for i := range slots {
					want = append(want, fmt.Sprintf("%d to %[1]d, %v", i, inline > 0))
				}
				want = append(want, fmt.Sprintf("%d to %d, false", slots, slots+MaxBatch-1),
					fmt.Sprintf("%d to %d, false", slots+MaxBatch, slots+MaxBatch+4))
				if !slices.Equal(batches, want) {
					t.Errorf("the batches were %q, want %q", batches, want)
				}
				checkEmpty(t, q)
			})
		})
	}
}

// TestWorkersEnd: workers stay for the calls that come soon, and end if none come.
func TestWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := time.Millisecond
		q := New(byWorkers(func(batch []*testCall) bool {
			time.Sleep(takes)
			return echo(batch)
		}))
		var group sync.WaitGroup
		for range minSlots {
			group.Go(func() { serveEach(t, q, 1) })
			synctest.Wait()
		}
		group.Wait()
		checkIdle(t, q, minSlots, 0)
		for range 9 { // the timer runs for other causes too
			time.Sleep(idleTime/10 - takes)
			serveEach(t, q, 1)
		}
		checkIdle(t, q, minSlots, 0)
		time.Sleep(300 * time.Millisecond)
		checkIdle(t, q, 0, 0)

		takes = time.Second
		group.Go(func() { serveEach(t, q, 1) })
		time.Sleep(lostAfter / 2)
		checkIdle(t, q, 0, 1)
		time.Sleep(lostAfter)
		checkIdle(t, q, 0, 0) // presumed lost
		group.Wait()
		checkEmpty(t, q)
	})
}

// TestAnswerLater: Serve may leave the answers to other goroutines, and return before.
func TestAnswerLater(t *testing.T) {
	for _, inline := range []time.Duration{0, time.Hour} {
		t.Run(inline.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(byCallers(inline, func(batch []*testCall) bool {
					for _, c := range batch {
						go func() {
							time.Sleep(time.Second)
							c.Answer(c.Request, nil)
						}()
					}
					return true
				}))
				for range 3 {
					serveEach(t, q, 100)
				}
				checkEmpty(t, q)
			})
		})
	}
}

// TestAnsweredCallersComeAlong: callers that come again as soon as they are answered are in the next batch, and a
// backlog is not served one call at a time. On one processor the size of the batches is not left to chance.
func TestAnsweredCallersComeAlong(t *testing.T) {
	const least = 14
	for name, reply := range map[string]func(){
		// 16 calls, and 12 if a worker did not yield after a batch.
		"a server that is away": runtime.Gosched, // as every server does that is not part of the process
		// 20 calls or more, and 1 if a worker did not yield after a batch of one: the caller of that one would run
		// next.
		"a server that answers at once": func() {},
	} {
		if mean := meanBatch(t, reply); mean < least {
			t.Errorf("%s: %.1f calls in a batch, want at least %d", name, mean, least)
		}
	}
}

// meanBatch returns how many calls of 64 callers there are in a batch on one processor. reply waits for the server.
func meanBatch(t *testing.T, reply func()) float64 {
	t.Helper()
	const callers, rounds = 64, 500
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var batches atomic.Int64
	q := New(byWorkers(func(batch []*testCall) bool {
		batches.Add(1)
		reply()
		return echo(batch)
	}))
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range rounds {
				if _, err := ask(q, 1, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	return float64(callers*rounds) / float64(batches.Load())
}

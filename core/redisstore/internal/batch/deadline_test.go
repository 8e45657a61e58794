package batch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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

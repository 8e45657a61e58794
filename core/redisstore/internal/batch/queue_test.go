package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnswers: callers that leave, or whose deadlines pass, at any moment, neither get an answer meant for another
// caller nor leave theirs to one.
func TestAnswers(t *testing.T) {
	for _, inline := range []time.Duration{0, time.Hour} {
		t.Run(inline.String(), func(t *testing.T) {
			q := New(byCallers(inline, func(batch []*testCall) bool {
				var requests []int64
				for _, c := range batch {
					requests = append(requests, c.Request)
				}
				runtime.Gosched() // while some leave
				for i, c := range batch {
					c.Answer(requests[i], nil)
				}
				return true
			}))
			var answered, left, late atomic.Int64
			one := func(group *sync.WaitGroup, request, i int64) {
				ctx, leave := context.WithCancel(context.Background())
				defer leave()
				var deadline time.Time
				switch i % 4 {
				case 0:
					group.Go(leave)
				case 1:
					deadline = time.Now().Add(time.Duration(i) * time.Microsecond / 4)
				case 2:
					deadline = time.Now().Add(time.Hour)
				}
				answer, err := q.Do(ctx, deadline, &request)
				switch {
				case err == nil && answer == request:
					answered.Add(1)
				case isLeft(err) && i%4 == 0:
					left.Add(1)
				case errors.Is(err, errLate) && i%4 == 1:
					late.Add(1)
				default:
					t.Errorf("request %d got %d, %v", request, answer, err)
				}
			}
			var group sync.WaitGroup
			for caller := range int64(32) {
				group.Go(func() {
					for i := range int64(500) {
						one(&group, caller*1000+i, i)
					}
				})
			}
			group.Wait()
			if left.Load() == 0 || late.Load() == 0 || answered.Load() < 8000 {
				t.Errorf("%d were answered, %d left, %d were late; want at least 8000, 1, 1",
					answered.Load(), left.Load(), late.Load())
			}
		})
	}
}

// TestAnsweredKeepsNothing: a call that is kept for another use does not keep the caller's context alive.
func TestAnsweredKeepsNothing(t *testing.T) {
	q := New(byWorkers(echo))
	if _, err := ask(q, 1, 0); err != nil {
		t.Error(err)
	}
	if c := q.calls.Get().(*testCall); c.Context != nil || c.Request != 0 || c.answer != 0 || c.err != nil {
		t.Errorf("the call keeps %v, %d, %d, %v", c.Context, c.Request, c.answer, c.err)
	}
}

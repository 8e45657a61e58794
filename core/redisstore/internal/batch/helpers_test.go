package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

type (
	testQueue = Queue[int64, int64]
	testCall  = Call[int64, int64]
)

var (
	errLate   = errors.New("too late")
	errQueued = fmt.Errorf("%w, and not sent", errLate)
)

// leftError is the error of callers whose context has ended.
type leftError struct{ error }

func (e leftError) Unwrap() error { return e.error }

func isLeft(err error) bool { return errors.As(err, new(leftError)) }

// byWorkers configures a queue whose callers never serve their own calls.
func byWorkers(serve func([]*testCall) bool) Config[int64, int64] {
	return Config[int64, int64]{
		Serve:       serve,
		ErrLate:     errLate,
		ErrQueued:   errQueued,
		ErrCanceled: func(ctx context.Context) error { return leftError{context.Cause(ctx)} },
		MinWait:     100 * time.Millisecond,
	}
}

// byCallers configures a queue whose callers serve their own calls if at most the given time is left.
func byCallers(most time.Duration, serve func([]*testCall) bool) Config[int64, int64] {
	c := byWorkers(serve)
	c.InlineMax = most
	return c
}

// echo answers each call with its request.
func echo(batch []*testCall) bool {
	for _, c := range batch {
		c.Answer(c.Request, nil)
	}
	return true
}

// ask asks without a deadline, or with one that is so far away.
func ask(q *testQueue, request int64, timeout time.Duration) (elapsed time.Duration, err error) {
	start := time.Now()
	var deadline time.Time
	if timeout > 0 {
		deadline = start.Add(timeout)
	}
	answer, err := q.Do(context.Background(), deadline, &request)
	if err == nil && answer != request {
		err = fmt.Errorf("request %d got the answer %d", request, answer)
	}
	return time.Since(start), err
}

// checkEmpty waits until idle workers must have ended, and checks that the queue keeps nothing.
func checkEmpty(t *testing.T, q *testQueue) {
	t.Helper()
	time.Sleep(300 * time.Millisecond)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.workers.idle > 0 || q.slots.used > 0 || len(q.inFlight) > 0 || cap(q.waiting) > 64 {
		t.Errorf("left are %d idle workers, %d slots used, %d batches under way, room for %d waiting calls; "+
			"want none, and room for at most %d calls",
			q.workers.idle, q.slots.used, len(q.inFlight), cap(q.waiting), 64)
	}
}

// serveEach has some callers make a call each, all at once, and waits until all are answered.
func serveEach(t *testing.T, q *testQueue, callers int) {
	t.Helper()
	var group sync.WaitGroup
	for i := range int64(callers) {
		group.Go(func() {
			if _, err := ask(q, i, time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

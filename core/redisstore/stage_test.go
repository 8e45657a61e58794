package redisstore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// wantStage fails unless err says that the time for a request was over at a stage.
func wantStage(t *testing.T, what string, err error, want core.Stage) {
	t.Helper()
	if got := core.StageOf(err); got != want || err == nil {
		t.Errorf("%s: %v at the stage %q, want %q", what, err, got, want)
	}
}

// TestStageOfTurn: a request that waits for one of the calls that may be under way was
// not sent, whether its deadline or its context ends the wait. The request that is under
// way was.
func TestStageOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newScripted(t, time.Second) // the client does not heed deadlines
		c.calls = make(chan struct{}, 1)
		args := []any{"evalsha", "", 1, "key"}
		send := func(ctx context.Context) (string, error) { return c.evalNow(ctx, args, "") }
		for _, want := range []core.Stage{core.StageReply, core.StageQueued} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), core.DefaultTimeout, core.ErrTimeout)
			_, err := c.guarded(ctx, time.Now().Add(2*core.DefaultTimeout), newBreaker(""), send)
			wantStage(t, "context", err, want)
			cancel()
		}
		_, err := c.guarded(t.Context(), time.Now().Add(core.DefaultTimeout), newBreaker(""), send)
		wantStage(t, "deadline", err, core.StageQueued)
		time.Sleep(2 * time.Second)
	})
}

// TestStageOfQueue: a request that waits for the batches before it was not sent. A
// request in a batch was.
func TestStageOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func([]*call) bool {
			time.Sleep(time.Second)
			return false
		}, false)
		var group sync.WaitGroup
		deadline := time.Now().Add(10 * time.Millisecond)
		for i := range 5 { // four batches may be under way
			group.Go(func() {
				_, err := q.Do(t.Context(), deadline, &request{})
				want := core.StageReply
				if i == 4 {
					want = core.StageQueued
				}
				wantStage(t, "request", err, want)
			})
			synctest.Wait()
		}
		group.Wait()
		time.Sleep(2 * time.Second)
	})
}

package redisstore

import (
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

// TestStageOfQueue: a request that waits for the batches before it was not sent. A
// request in a batch was.
func TestStageOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func([]*call) bool {
			time.Sleep(time.Second)
			return false
		}, 0, 0)
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

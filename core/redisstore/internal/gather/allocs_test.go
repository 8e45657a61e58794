package gather

import (
	"context"
	"testing"
	"time"
)

// TestAllocations: a call takes no memory once the queue is warm, and a batch's context takes five pieces: itself, the
// values, the channel, the timer and what the timer runs.
func TestAllocations(t *testing.T) {
	for name, most := range map[string]time.Duration{"by workers": 0, "inline": time.Minute} {
		q := New(byCallers(most, echo))
		n := testing.AllocsPerRun(2000, func() {
			if _, err := q.Do(t.Context(), time.Now().Add(time.Second), new(int64(1))); err != nil {
				t.Error(err)
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations a call, want 0", name, n)
		}
	}
	q := New(byWorkers(echo))
	batch := []*testCall{{Context: context.Background(), Deadline: time.Now().Add(time.Hour)}}
	judge := func(error) {}
	n := testing.AllocsPerRun(2000, func() {
		if !q.Patience(batch, judge).Stop(nil) {
			t.Error("not in time")
		}
	})
	if n > 5 {
		t.Errorf("%v allocations a batch, want at most 5", n)
	}
}

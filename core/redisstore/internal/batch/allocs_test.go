package batch

import (
	"testing"
	"time"
)

// TestAllocations: a call takes no memory once the queue is warm.
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
}

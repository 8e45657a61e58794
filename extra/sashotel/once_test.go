package sashotel

import (
	"sync"
	"testing"
)

// TestSeriesOnce: goroutines that see a rule for the first time at once make one series
// of it. A second one would be reported beside it, and count against the bound.
func TestSeriesOnce(t *testing.T) {
	for range 2000 {
		s := newSeriesSet()
		start := make(chan struct{})
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				<-start
				s.add(seriesKey{limiter: "api"}, admitted)
			})
		}
		close(start)
		group.Wait()
		if n := s.counters.len(); n != int(outcomes) {
			t.Fatalf("%d counters of a rule, want %d", n, outcomes)
		}
	}
}

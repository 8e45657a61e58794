package waitqueue

import (
	"math"
	"math/rand/v2"
	"time"
)

// Estimate predicts, from the latest answer, when the next request can pass. The zero Estimate lets it
// ask at once.
type Estimate struct {
	After   time.Duration // a request of Cost or more cannot pass earlier
	Cost    int64
	PerUnit float64 // nanoseconds; the delay of each unit above Cost, the gain of each below; 0: at After, and now
	Failed  bool    // the store failed: the next try is after a backoff, and After is ignored
	Fixed   bool    // no store has counted the request: After holds whatever is returned
	Err     error   // the store's
}

const (
	// A waiter asks later than it could by up to this share of the wait, so that the processes that wait for one
	// key do not ask at the same instant.
	jitterShare = 50
	maxJitter   = 100 * time.Millisecond

	// The backoff of failures: the first, and the longest.
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Second
)

// state is the latest estimate of a queue.
type state struct {
	Estimate
	start    time.Time // the time from which After counts
	jitter   time.Duration
	failures int // in a row
}

// newState returns the state after an answer that comes now, after a number of failures in a row.
func newState(e Estimate, failures int) state {
	s := state{Estimate: e, start: time.Now()}
	switch {
	case e.Failed:
		wait := min(minRetry<<min(failures, 10), maxRetry)
		s.After, s.failures = wait/2+rand.N(wait/2+1), failures+1
	case !e.Fixed:
		wait := e.After
		if e.PerUnit > 0 {
			wait = min(wait, time.Duration(e.PerUnit))
		}
		s.jitter = rand.N(min(max(0, wait/jitterShare), maxJitter) + 1)
	}
	return s
}

// next returns the earliest time at which a request of the given cost can pass.
func (s *state) next(cost int64) time.Time {
	if s.PerUnit == 0 && cost < s.Cost {
		return time.Time{}
	}
	return s.start.Add(s.After + time.Duration(math.Ceil(s.PerUnit*float64(cost-s.Cost))))
}

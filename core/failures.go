package core

import (
	"sync"
	"time"
)

// Failures tells of a store that fails, as a limiter has seen it.
type Failures struct {
	Decided uint64    // requests that the policy, or its fallback, has decided
	Since   time.Time // when the latest run of failures began; zero if there was none
	Latest  time.Time // the latest failure
	Err     error     // of the latest failure
	Remedy  string    // what an operator can do about it
}

// Failures returns what l and its copies by WithPolicy and WithLimits have seen of a store that
// fails. A run of failures ends when a minute has passed without one.
func (l *Limiter) Failures() Failures {
	f := &l.shared.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	told := f.Failures
	if told.Err != nil {
		told.Remedy = remedyOf(told.Err)
	}
	return told
}

// Failing reports whether the store has failed a request within the last minute.
func (f *Failures) Failing() bool { return !f.Latest.IsZero() && time.Since(f.Latest) < mostCalm }

// failures are those of a limiter.
type failures struct {
	mu       sync.Mutex // guards Failures
	Failures Failures
}

// note notes that the store has failed a request with err.
func (f *failures) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.Failures.Failing() {
		f.Failures.Since = time.Now()
	}
	f.Failures.Decided++
	f.Failures.Latest, f.Failures.Err = time.Now(), err
}

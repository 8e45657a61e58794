package core

import "time"

// Failures tells of a store that fails. A run of failures ends with a minute without one.
type Failures struct {
	Decided uint64    // requests that the policy, or its fallback, has decided
	Since   time.Time // when the latest run of failures began; zero if there was none
	Latest  time.Time // the latest failure
	Err     error     // of the latest failure
	Remedy  string    // what an operator can do about it
}

// Failures returns what l and its copies by WithPolicy and WithLimits have seen.
func (l *Limiter) Failures() Failures {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	f := l.shared.failures
	if f.Err != nil {
		f.Remedy = remedyOf(f.Err)
	}
	return f
}

// Failing reports whether the store has failed a request within the last minute.
func (f *Failures) Failing() bool { return !f.Latest.IsZero() && time.Since(f.Latest) < mostCalm }

// failed notes that the store has failed a request with err.
func (s *shared) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.failures
	if !f.Failing() {
		f.Since = time.Now()
	}
	f.Decided++
	f.Latest, f.Err = time.Now(), err
}

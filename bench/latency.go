package bench

import (
	"slices"
	"time"
)

// latency collects how long single decisions of a contestant take, in nanoseconds. It
// may be used by one goroutine at a time.
type latency struct{ ns []float64 }

// noting returns decide with a note of how long each call takes.
func (l *latency) noting(decide func(i int) error) func(i int) error {
	return func(i int) error {
		start := time.Now()
		err := decide(i)
		l.ns = append(l.ns, float64(time.Since(start)))
		return err
	}
}

// p99 returns the time that 1 % of the decisions exceed, and forgets all decisions. It
// returns 0 if there were none.
func (l *latency) p99() float64 {
	if len(l.ns) == 0 {
		return 0
	}
	slices.Sort(l.ns)
	slow := l.ns[len(l.ns)*99/100]
	l.ns = l.ns[:0]
	return slow
}

package core

import (
	"log/slog"
	"sync"
	"time"
)

// defaultLines bounds the lines of all default logs: a program that makes a limiter for
// each request makes as many logs.
var defaultLines lineBudget

// lineBudget bounds the lines that several observers write to one log, to a number per minute. If
// they go on with another log, it begins anew. A nil one has no bound.
type lineBudget struct {
	mu    sync.Mutex // guards the fields below
	log   *slog.Logger
	since time.Time
	used  int
}

// maxDefaultLines is the most lines of all default logs in a minute.
const maxDefaultLines = 100

// take reports whether a line may be written to log now, and counts it.
func (b *lineBudget) take(now time.Time, log *slog.Logger) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.since); log != b.log || passed < 0 || passed >= time.Minute {
		b.log, b.since, b.used = log, now, 0
	}
	b.used++
	return b.used <= maxDefaultLines
}

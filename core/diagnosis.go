package core

import (
	"context"
	"fmt"
	"sync"

	"github.com/sashlimit/sash/internal/notice"
)

// shared holds the state that a limiter has in common with its copies by WithPolicy and WithLimits.
type shared struct {
	mu       sync.Mutex // guards failures
	failures Failures
	noticed  sync.Map // the codes of the notices that an observer has heard of
	once     sync.Once
	value    any // of hiddenMethods.Shared
}

// largeLog is the size of a log in bytes for which a counter is proposed.
const largeLog = 1_000_000

// begin says, at the first decision of the limiter, what is wrong with how it was made. A
// log that a program sets at its start has been set by then.
func (l *Limiter) begin(ctx context.Context) {
	if l.begun.Swap(true) {
		return
	}
	for _, limit := range l.limits {
		bytes := limit.Requests * limit.Algorithm.properties().unitBytes
		if bytes > largeLog {
			l.notice(ctx, notice.LargeLog, fmt.Sprintf("limit %q keeps a log of up to %d requests for each client, "+
				"at least %.1f MB: unless it must be exact, use %v.Using(core.SlidingCounter), which keeps two numbers",
				limit.Name, limit.Requests, float64(bytes)/1e6, limit.code()))
			return
		}
	}
}

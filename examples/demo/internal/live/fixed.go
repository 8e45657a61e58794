package live

import (
	"sync"
	"time"
)

// fixedWindow is the limiter that is often written first. It is wrong on purpose: it counts by the clock's windows and
// begins anew at each boundary, so that a client gets twice the limit around one. Do not copy it.
type fixedWindow struct {
	limit  int
	window time.Duration

	mu     sync.Mutex
	number int64       // of the window since 1970
	used   map[int]int // in it, by client
}

// allow reports whether a request of a client at now is within the limit of its fixed window, and counts it if so.
func (f *fixedWindow) allow(client int, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number := now.UnixNano() / int64(f.window); number > f.number {
		f.number, f.used = number, map[int]int{}
	}
	if f.used[client] >= f.limit {
		return false
	}
	f.used[client]++
	return true
}

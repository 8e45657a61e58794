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

	mu      sync.Mutex
	clients map[int]fixedCount
}

// fixedCount counts the requests of a client in one window of the clock.
type fixedCount struct {
	window int64 // the number of the window since 1970
	used   int
}

func newFixedWindow(limit int, window time.Duration) *fixedWindow {
	return &fixedWindow{limit: limit, window: window, clients: map[int]fixedCount{}}
}

// allow reports whether a request of a client at now is within the limit of its fixed window, and counts it if so.
func (f *fixedWindow) allow(client int, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := f.clients[client]
	if number := now.UnixNano() / int64(f.window); number > count.window {
		count = fixedCount{window: number}
	}
	if count.used >= f.limit {
		return false
	}
	count.used++
	f.clients[client] = count
	return true
}

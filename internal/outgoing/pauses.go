package outgoing

import (
	"sync"
	"time"
)

// maxPauses is the most keys that may have a pause at once.
const maxPauses = 1024

// pauses are the times until which servers have asked for no more requests. The zero value
// has none.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// left returns the rest of the pause of the key, 0 if there is none.
func (p *pauses) left(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until[key]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(p.until, key)
	}
	return max(0, left)
}

// note begins a pause of the key. A pause that ends later stays.
func (p *pauses) note(key string, wait time.Duration) {
	if wait <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	end := time.Now().Add(wait)
	known, ok := p.until[key]
	if ok && !end.After(known) {
		return
	}
	if !ok && len(p.until) >= maxPauses {
		p.dropFirst()
	}
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	p.until[key] = end
}

// dropFirst drops the pause that ends first. p.mu must be held.
func (p *pauses) dropFirst() {
	var first string
	var earliest time.Time
	for key, end := range p.until {
		if earliest.IsZero() || end.Before(earliest) {
			first, earliest = key, end
		}
	}
	delete(p.until, first)
}

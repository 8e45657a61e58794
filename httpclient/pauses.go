package httpclient

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxPauses is the most keys that may have a pause at once.
const maxPauses = 1024

// pauses are the times until which servers have asked for no more requests. The zero value
// has none. Keys are hashed, so that long ones take no more memory.
type pauses struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

// left returns the rest of the pause of the key, 0 if there is none.
func (p *pauses) left(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.until) == 0 {
		return 0
	}
	hash := sha256.Sum256([]byte(key))
	until, ok := p.until[hash]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(p.until, hash)
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
	hash, end := sha256.Sum256([]byte(key)), time.Now().Add(wait)
	known, ok := p.until[hash]
	if ok && !end.After(known) {
		return
	}
	if !ok && len(p.until) >= maxPauses {
		p.dropFirst()
	}
	if p.until == nil {
		p.until = map[[sha256.Size]byte]time.Time{}
	}
	p.until[hash] = end
}

// dropFirst drops the pause that ends first. p.mu must be held.
func (p *pauses) dropFirst() {
	var first [sha256.Size]byte
	var earliest time.Time
	for hash, end := range p.until {
		if earliest.IsZero() || end.Before(earliest) {
			first, earliest = hash, end
		}
	}
	delete(p.until, first)
}

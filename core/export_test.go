package core

// Waiting returns how many keys have callers of Wait.
func (l *Limiter) Waiting() int {
	l.waiting.mu.Lock()
	defer l.waiting.mu.Unlock()
	return len(l.waiting.byKey)
}

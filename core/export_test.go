package core

// Waiting returns the number of keys that have callers of Wait.
func (l *Limiter) Waiting() int { return l.waiting.Len() }

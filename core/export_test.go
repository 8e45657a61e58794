package core

import "context"

// What hiddenMethods opens to package nethttp, as methods of a Limiter.

func (l *Limiter) Notice(ctx context.Context, code, text string) { l.notice(ctx, code, text) }
func (l *Limiter) Hears(code string) bool                        { return l.hears(code) }
func (l *Limiter) Shared(create func() any) any                  { return hiddenMethods{}.Shared(l, create) }
func (l *Limiter) Report(ctx context.Context, r Request, d Decision) {
	hiddenMethods{}.Report(ctx, l, r, d)
}

// Waiting returns how many keys have callers of Wait.
func (l *Limiter) Waiting() int {
	l.waiting.mu.Lock()
	defer l.waiting.mu.Unlock()
	return len(l.waiting.byKey)
}

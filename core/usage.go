package core

import (
	"context"
)

// Usage returns the usage of each limit by the client named key, in the order of [Limiter.Limits]. It is
// not reported to the observer. Leased units are used; a full memstore may return more than was used,
// never less. The error matches [ErrInvalid] or [ErrStore], or is the context's.
// With a [Fallback], an ErrStore may come with its own uses.
func (l *Limiter) Usage(ctx context.Context, key string) (uses []Usage, err error) {
	err = l.withTimeout(ctx, key, func(whole, first context.Context) error {
		uses, err = l.usage(first, key)
		if err == nil || l.fallback == nil || ctx.Err() != nil {
			return err
		}
		var second error
		if uses, second = l.fallback.usage(whole, key); second != nil {
			return fallbackError(err, second)
		}
		return err
	})
	return uses, err
}

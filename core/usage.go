package core

import (
	"context"
	"fmt"
	"time"
)

// Usage holds the units that a client has used of a limit.
type Usage struct {
	Limit      Limit         // its name filled in
	Used       int64         // units that count now: above Limit.Requests if that was lowered
	Remaining  int64         // the rest of Limit.Requests, never negative
	ResetAfter time.Duration // as in a Decision; 0 when Used is 0
	At         time.Time     // the store's time, in whole microseconds, the same for all limits
}

// Usage returns what the client named key has used of each limit, in the order of [Limiter.Limits].
// No observer is told of it. Units that a process has leased are used; a full memstore may return
// more than was used, never less. The error matches [ErrInvalid] or [ErrStore], or is the context's.
// With a [Fallback], an ErrStore may come with its own uses.
func (l *Limiter) Usage(ctx context.Context, key string) (uses []Usage, err error) {
	err = l.within(ctx, key, func(whole, first context.Context) error {
		uses, err = l.usage(first, key)
		if err == nil || l.fallback == nil || ctx.Err() != nil {
			return err
		}
		var second error
		if uses, second = l.fallback.usage(whole, key); second != nil {
			return bothFailed(err, second)
		}
		return err
	})
	return uses, err
}

// usage returns what the store has counted, with the limits filled in.
func (b *boundRule) usage(ctx context.Context, key string) ([]Usage, error) {
	uses, err := b.counts.Usage(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(uses) != len(b.limits) {
		return nil, fmt.Errorf("sash: Usage of %T returned %d uses for %d limits", b.counts, len(uses), len(b.limits))
	}
	for i, limit := range b.limits {
		uses[i].Limit = limit
		uses[i].Remaining = max(0, limit.Requests-uses[i].Used)
	}
	return uses, nil
}

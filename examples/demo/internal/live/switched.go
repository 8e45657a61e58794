package live

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
)

var errAway = errors.New("the demo has taken the store away")

// switched is a store that can be taken away. What is counted stays meanwhile, as in a Redis behind a broken network.
type switched struct {
	core.Store
	away atomic.Bool
}

// Bind implements core.Store.
func (s *switched) Bind(rule core.Binding) (core.Ledger, error) {
	counts, err := s.Store.Bind(rule)
	if err != nil {
		return nil, err
	}
	return &switchedCounts{counts, s}, nil
}

type switchedCounts struct {
	core.Ledger
	store *switched
}

func (c *switchedCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	if c.store.away.Load() {
		return core.Decision{}, errAway
	}
	return c.Ledger.Take(ctx, ask)
}

func (c *switchedCounts) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	if c.store.away.Load() {
		return nil, errAway
	}
	return c.Ledger.Usage(ctx, key)
}

func (c *switchedCounts) Return(ctx context.Context, back core.Refund) (int64, error) {
	if c.store.away.Load() {
		return 0, errAway
	}
	return c.Ledger.Return(ctx, back)
}

func (c *switchedCounts) Reset(ctx context.Context, key string) error {
	if c.store.away.Load() {
		return errAway
	}
	return c.Ledger.Reset(ctx, key)
}

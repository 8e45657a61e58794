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
	next, err := s.Store.Bind(rule)
	return &switchedLedger{next, s}, err
}

// switchedLedger takes decisions away alone: a page asks for nothing else.
type switchedLedger struct {
	core.Ledger
	store *switched
}

func (l *switchedLedger) Take(ctx context.Context, ask core.Ask) core.Decision {
	if l.store.away.Load() {
		return core.Decision{Err: errAway}
	}
	return l.Ledger.Take(ctx, ask)
}

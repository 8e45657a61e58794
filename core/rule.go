package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/sashlimit/sash/internal/errs"
)

// boundRule is a rule bound to a store.
type boundRule struct {
	limits  []Limit
	ledger  Ledger
	mayWait bool // counts is not Immediate: a call may wait for a server
}

// bind binds a rule to a store. It returns an error if the store returns neither a Ledger nor an error.
func bind(s Store, b Binding) (boundRule, error) {
	if len(b.Limits) == 0 {
		return boundRule{}, nil // no request reaches a ledger
	}
	limits := slices.Clone(b.Limits)
	counts, err := s.Bind(b)
	if err == nil && errs.IsNil(counts) {
		err = fmt.Errorf("sash: Bind of the store %T returned neither a Ledger nor an error", s)
	}
	_, immediate := counts.(Immediate)
	return boundRule{limits, counts, !immediate}, err
}

// usage returns the usage of all limits, with Limit and Remaining filled in.
func (b *boundRule) usage(ctx context.Context, key string) ([]Usage, error) {
	uses, err := b.ledger.Usage(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(uses) != len(b.limits) {
		return nil, fmt.Errorf("sash: Usage of %T returned %d uses for %d limits", b.ledger, len(uses), len(b.limits))
	}
	for i, limit := range b.limits {
		uses[i].Limit = limit
		uses[i].Remaining = max(0, limit.Requests-uses[i].Used)
	}
	return uses, nil
}

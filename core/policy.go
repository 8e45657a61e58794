package core

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// Policy decides while the store fails. It is [FailOpen], [FailClosed] or a [Fallback].
type Policy interface{ failurePolicy() }

var (
	// FailOpen serves the request, uncounted: the default.
	FailOpen Policy = fixedPolicy("fail open")

	// FailClosed refuses the request, as for a login: it must not be tried without a limit.
	FailClosed Policy = fixedPolicy("fail closed")
)

// fixedPolicy gives every request the same answer.
type fixedPolicy string

func (fixedPolicy) failurePolicy()   {}
func (p fixedPolicy) String() string { return string(p) }

// fallbackPolicy is the policy that Fallback returns.
type fallbackPolicy struct {
	store    Store
	replicas int
}

func (fallbackPolicy) failurePolicy() {}

// String returns "fallback" and the number of replicas that share the limits.
func (p fallbackPolicy) String() string {
	if p.replicas == 1 {
		return "fallback"
	}
	return fmt.Sprintf("fallback, shared by %d", p.replicas)
}

// Fallback decides by another store, usually a memstore of this process, while the first fails. If both
// fail, the request is refused. A fallback in memory counts for this process alone, so each of a service's
// replicas enforces max(1, Requests/replicas) of every limit.
//
// After the outage the first store alone decides, without what the fallbacks have admitted.
// So by a SlidingLog of N in W for R replicas no window holds more than N + R*max(1, N/R) admitted
// units, and by a Bucket no interval t more than 1+t/W times as many; a process that restarts counts as
// another replica. [New] refuses a fallback that is == the limiter's own store, but does not notice two stores on one
// Redis.
func Fallback(store Store, replicas int) Policy { return fallbackPolicy{store, replicas} }

// fallbackRule is the rule of a limiter in the store of a Fallback.
type fallbackRule struct {
	boundRule       // the limiter's rule, with the shares as its limits
	replicas  int64 // the number given to Fallback
}

// bind binds a rule of the first store to the fallback.
func (p fallbackPolicy) bind(first Store, b Binding) (*fallbackRule, error) {
	switch {
	case errs.IsNil(p.store):
		return nil, fmt.Errorf("sash: the store of core.Fallback is %s: give one, such as memstore.New()",
			errs.NilName(p.store))
	case reflect.ValueOf(p.store).Comparable() && p.store == first:
		return nil, fmt.Errorf("sash: the store of core.Fallback is Config.Store itself, a %T, so both fail "+
			"together: give another store, such as memstore.New(), or core.FailOpen or core.FailClosed", p.store)
	case p.replicas < 1:
		return nil, fmt.Errorf("sash: core.Fallback for %d replicas: give the number of replicas that share "+
			"the limit, or 1 for one process or a shared store", p.replicas)
	}
	f := &fallbackRule{replicas: int64(p.replicas)}
	var err error
	b.Limits = f.shares(b.Limits)
	f.boundRule, err = bind(p.store, b)
	return f, err
}

// shares returns the limits with this replica's share of Requests.
func (f *fallbackRule) shares(limits []Limit) []Limit {
	shares := slices.Clone(limits)
	for i := range shares {
		shares[i].Requests = max(1, shares[i].Requests/f.replicas)
	}
	return shares
}

// take decides a request after the first store failed.
func (f *fallbackRule) take(ctx context.Context, r *Request, timeout time.Duration) Decision {
	ask := r.ask(timeout)
	if r.Limits != nil {
		ask.Override.Limits = f.shares(r.Limits)
	}
	return f.ledger.Take(ctx, ask)
}

// fallbackError returns the error after a store and its fallback failed.
func fallbackError(first, second error) error {
	return AtStage(StageFallback, &storeError{fmt.Errorf("%w: the fallback failed: %w", first, second)})
}

package core

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// Policy decides while the store cannot be asked. It is [FailOpen], [FailClosed] or a [Fallback].
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

// String returns "fallback", and among how many replicas it is shared.
func (p fallbackPolicy) String() string {
	if p.replicas == 1 {
		return "fallback"
	}
	return fmt.Sprintf("fallback, shared by %d", p.replicas)
}

// Fallback asks another store, usually a memstore of this process, while the first cannot be asked. If
// the other cannot be asked either, the request is refused. A fallback in memory counts for this process
// alone, so each of a service's replicas enforces max(1, Requests/replicas) of every limit.
//
// After the outage the first store alone decides, and knows nothing of what the fallbacks have admitted.
// So by a SlidingLog of N in W for R replicas no window holds more than N + R*max(1, N/R) admitted
// units, and by a Bucket no stretch t more than 1+t/W times as many; a process that restarts counts as
// another replica. [New] refuses a fallback that is the limiter's own store by ==, and sees no more: two stores
// on one Redis are one.
func Fallback(store Store, replicas int) Policy { return fallbackPolicy{store, replicas} }

// fallbackRule is the rule of a limiter in the store of a Fallback.
type fallbackRule struct {
	boundRule       // the limiter's rule, with the shares as its limits
	replicas  int64 // the number given to Fallback
}

// bind returns the fallback of a rule that is bound to the first store.
func (p fallbackPolicy) bind(first Store, b Binding) (*fallbackRule, error) {
	switch {
	case errs.IsNil(p.store):
		return nil, fmt.Errorf("sash: the store of core.Fallback is %s: give one, such as memstore.New()",
			errs.NilName(p.store))
	case reflect.ValueOf(p.store).Comparable() && p.store == first:
		return nil, fmt.Errorf("sash: the store of core.Fallback is Config.Store itself, a %T, so both fail "+
			"together: give another store, such as memstore.New(), or core.FailOpen or core.FailClosed", p.store)
	case p.replicas < 1:
		return nil, fmt.Errorf("sash: core.Fallback for %d replicas: give the number of replicas that share the limit, "+
			"or 1 for one process or a shared store", p.replicas)
	}
	f := &fallbackRule{replicas: int64(p.replicas)}
	var err error
	b.Limits = f.shares(b.Limits)
	f.boundRule, err = bind(p.store, b)
	return f, err
}

// shares returns the limits that the fallback enforces in the place of limits.
func (f *fallbackRule) shares(limits []Limit) []Limit {
	shares := slices.Clone(limits)
	for i := range shares {
		shares[i].Requests = max(1, shares[i].Requests/f.replicas)
	}
	return shares
}

// take decides a request about which the first store could not be asked.
func (f *fallbackRule) take(ctx context.Context, r *Request, timeout time.Duration) Decision {
	ask := r.ask(timeout)
	if r.Limits != nil {
		ask.Override.Limits = f.shares(r.Limits)
	}
	return f.counts.Take(ctx, ask)
}

// bothFailed returns the error of a store and its fallback that could not be asked either.
func bothFailed(first, second error) error {
	return AtStage(StageFallback, chained(ErrStore, first, &errs.Worded{Words: "nor could the fallback: ", Err: second}))
}

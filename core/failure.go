package core

import (
	"context"
	"sync/atomic"
	"time"
)

// FailurePolicy says what happens to a request while the store cannot be
// asked. It is one of [FailOpen], [FailClosed] and what [Fallback] returns.
type FailurePolicy interface{ failurePolicy() }

// fixedPolicy answers the same to everybody. Constants, so that nobody can
// reassign them.
type fixedPolicy uint8

const (
	// FailOpen serves the request, uncounted. It is the default: for an API
	// whose limits protect it from overuse, being limited matters less than
	// being up.
	FailOpen fixedPolicy = iota

	// FailClosed refuses the request. It is for endpoints that must not be
	// tried without a limit, such as a login.
	FailClosed
)

func (fixedPolicy) failurePolicy() {}

type fallbackPolicy struct {
	store Store
	share int
}

func (fallbackPolicy) failurePolicy() {}

// Fallback asks another store, usually a memstore of this process. If that
// cannot be asked either, the request is refused.
//
// A fallback in memory counts for this process alone: R replicas together
// would let R times the limit through. [Share] divides the limit among them.
//
// When the store answers again, it does not know what the fallback admitted:
// for one window (the longest of the rule) after its last failure, a process
// asks both, and either may refuse. So, for a SlidingLog of N requests and R
// replicas that share it and fail over together:
//
//   - a window with the change from the store to the fallback in it holds at
//     most N + R*max(1, N/R) admitted requests, those of both stores;
//   - one with the change back in it holds at most R*max(1, N/R), the
//     fallbacks' own limit, and no more than N of them after the change.
func Fallback(store Store, options ...FallbackOption) FailurePolicy {
	p := fallbackPolicy{store: store, share: 1}
	for _, o := range options {
		o(&p)
	}
	return p
}

// FallbackOption is an option of [Fallback].
type FallbackOption func(*fallbackPolicy)

// Share makes the fallback enforce max(1, Requests/replicas) of every limit,
// for a service of that many replicas. The default is 1: the whole limit.
func Share(replicas int) FallbackOption {
	return func(p *fallbackPolicy) { p.share = replicas }
}

// fallback is the second store of a limiter, and when the first last failed.
type fallback struct {
	counts Counts
	window time.Duration // the longest of the rule
	failed atomic.Int64  // of the first store, in nanoseconds after start; 0: never
}

var start = time.Now()

func (f *fallback) noteFailure() { f.failed.Store(max(1, int64(time.Since(start)))) }

// recovering says whether the first store lacks what this one admitted.
func (f *fallback) recovering() bool {
	failed := f.failed.Load()
	return failed != 0 && time.Since(start)-time.Duration(failed) < f.window
}

// also holds an answer of the first store against the second. take asks the
// first. A request that the second refuses does not reach the first; one that
// both admit is counted by both. Should others take the last of the second
// while the first is being asked, the request is refused although the first has
// counted it. A second store that errs is left out.
func (f *fallback) also(ctx context.Context, r Request, take func() (Decision, error)) (Decision, error) {
	second, secondErr := f.counts.Take(ctx, r.Key, r.Cost, false)
	if secondErr == nil && !second.Allowed {
		second.Err = nil
		return second, nil
	}
	first, err := take()
	if err != nil || !first.Allowed || secondErr != nil {
		return first, err
	}
	if !r.Peek {
		if second, secondErr = f.counts.Take(ctx, r.Key, r.Cost, true); secondErr != nil {
			return first, nil
		}
	}
	if !second.Allowed || second.Remaining < first.Remaining ||
		second.Remaining == first.Remaining && second.ResetAfter > first.ResetAfter {
		return second, nil
	}
	return first, nil
}

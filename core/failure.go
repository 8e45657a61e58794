package core

import (
	"context"
	"sync"
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
	store    Store
	share    int
	failures *failures
}

func (fallbackPolicy) failurePolicy() {}

// failures is how the first store has failed, by the names of limiter and rule:
// limiters of the same names share their counts, in the fallback too.
type failures struct {
	mu sync.Mutex
	of map[[2]string]*outage
}

// outage is the last time that the first store did not answer.
type outage struct {
	start time.Time    // times are counted from here
	lasts atomic.Bool  // it has not answered since
	ended atomic.Int64 // when it first answered, or last failed, in nanoseconds; 0: never
}

func (f *failures) outage(limiter, rule string) *outage {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := [2]string{limiter, rule}
	if f.of[names] == nil {
		f.of[names] = &outage{start: time.Now()}
	}
	return f.of[names]
}

func (o *outage) now() int64 { return max(1, int64(time.Since(o.start))) }

func (o *outage) noteFailure() {
	o.ended.Store(o.now())
	o.lasts.Store(true)
}

func (o *outage) noteAnswer() {
	if o.lasts.Load() {
		o.ended.Store(o.now()) // first: in between nobody may think that all is long over
		o.lasts.Store(false)
	}
}

// Fallback asks another store, usually a memstore of this process. If that
// cannot be asked either, the request is refused.
//
// A fallback in memory counts for this process alone: R replicas together
// would let R times the limit through. [Share] divides the limit among them.
//
// When the store answers again, it does not know what the fallback admitted:
// for one window (the longest of the rule) after its first answer, a process
// asks both, and either may refuse. So, for a SlidingLog of N requests and R
// replicas that share it and fail over together:
//
//   - a window with the change from the store to the fallback in it holds at
//     most N + R*max(1, N/R) admitted requests, those of both stores;
//   - one with the change back in it holds at most R*max(1, N/R), the
//     fallbacks' own limit, and no more than N of them after the change.
//
// Where a part of the store fails, as one master of a Redis Cluster does, an answer
// of any other part is the end of the outage for a process that asks nothing more
// of the failing one for a window.
//
// Limiters of the same names know of each other's failures if they have the same
// policy: make one, and give it to all.
func Fallback(store Store, options ...FallbackOption) FailurePolicy {
	p := fallbackPolicy{store: store, share: 1, failures: &failures{of: map[[2]string]*outage{}}}
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

// fallback is the second store of a limiter, and how the first has failed.
type fallback struct {
	*outage
	counts  Counts
	window  time.Duration // the longest of the rule
	waits   bool          // the second store may have to be waited for
	glimpse time.Duration // for so long at most, where the first has not been asked yet
}

// recovering says whether the first store lacks what this one admitted, or another
// process's. That one's may be as young as the end of the outage, so what counts
// is when this process first heard of that.
func (f *fallback) recovering() bool {
	ended := f.ended.Load()
	return ended != 0 && (f.lasts.Load() || time.Since(f.start)-time.Duration(ended) < f.window)
}

// peek asks the second store before the first, for which it leaves time.
func (f *fallback) peek(ctx context.Context, r Request) (Decision, error) {
	if f.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.glimpse, ErrTimeout)
		defer cancel()
	}
	return f.counts.Take(ctx, r.Key, r.Cost, false)
}

// also holds an answer of the first store against the second. take asks the
// first. A request that the second refuses does not reach the first; one that
// both admit is counted by both. Should others take the last of the second
// while the first is being asked, the request is refused although the first has
// counted it. A second store that errs is left out.
func (f *fallback) also(ctx context.Context, r Request, take func() (Decision, error)) (Decision, error) {
	second, secondErr := f.peek(ctx, r)
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

package core

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// FailurePolicy says what happens to a request while the store cannot be
// asked. It is one of [FailOpen], [FailClosed] and what [Fallback] returns.
type FailurePolicy interface{ failurePolicy() }

// fixedPolicy gives every request the same answer. Its values are constants, so
// that no program can reassign them.
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

// String returns "fail open" or "fail closed".
func (p fixedPolicy) String() string {
	switch p {
	case FailOpen:
		return "fail open"
	case FailClosed:
		return "fail closed"
	}
	return strconv.Itoa(int(p))
}

// fallbackPolicy is the policy that Fallback returns.
type fallbackPolicy struct {
	store     Store
	share     int
	lastCount *lastCount
	err       error // what is wrong with an option; New returns it
}

func (fallbackPolicy) failurePolicy() {}

// String returns "fallback", and among how many replicas it is shared.
func (p fallbackPolicy) String() string {
	if p.share == 1 {
		return "fallback"
	}
	return fmt.Sprintf("fallback, shared by %d", p.share)
}

// Fallback asks another store, usually a memstore of this process, while the
// first cannot be asked. If the other cannot be asked either, the request is
// refused. A fallback in memory counts for this process alone: R replicas
// together would let R times the limit through. [Share] divides the limit among
// them.
//
// When the first store answers again, it does not know what the fallback has
// admitted, and no process knows what the fallbacks of the others have. So for
// a client of which this process's fallback counts f units in the window of a
// limit of N, the store's own limit is lowered to N - R*f, R being Share's: what R
// replicas have admitted if each has admitted as much. One request that the
// fallback admitted costs its client R of N; the rest is the store's to
// give, and all comes back as the units leave the window. For every other
// client the first store alone decides.
//
// With s = max(1, N/R), for a SlidingLog of N in W and R replicas (a process
// that restarts forgets, and counts as another replica):
//
//   - No window of length W holds more than N + R*s admitted units, whatever
//     fails and when: N of the store, and s of each fallback.
//   - A window in which no fallback admits while or after a request is under way
//     that the store admits, so that it holds no change from the store to a
//     fallback, holds at most N plus, for each replica, as many units as its
//     fallback has admitted more than the fallback of the replica by which the
//     store last admitted. Where the fallbacks have admitted alike, that is N, or
//     R if R exceeds N; it is never more than N + (R-1)*s.
//
// All clocks, the store's and the processes', are taken to keep the same pace. For
// a SlidingCounter the estimates of the store and of the fallbacks keep these
// bounds, as the estimate of one counter keeps N.
//
// Every request asks the first store, so [Decision].Err is nil iff that has
// answered. The fallback is asked as well while it may count something: until a
// window has passed (two of a SlidingCounter) since it last counted anything for
// any limiter of the policy. In that time a decision costs a look at the fallback
// for each limit of the rule, which a store in memory answers in well under a
// microsecond. The first store is asked once, as ever. If the fallback
// fails meanwhile, the first store alone decides.
//
// Limiters of one policy value know of each other's outages: make one value for all
// limiters, and one store for it.
//
// A limiter's own store is no fallback: [New] returns an error if both are equal by ==,
// and WithPolicy panics with it. A store around that store, and two stores of
// package redisstore on one Redis, are not seen to be the same.
func Fallback(store Store, options ...FallbackOption) FailurePolicy {
	p := fallbackPolicy{store: store, share: 1, lastCount: &lastCount{start: time.Now()}}
	for i, o := range options {
		if o == nil {
			p.err = fmt.Errorf("sash: option %d of core.Fallback is nil: leave it out, "+
				"or give core.Share(replicas)", i+1)
			break
		}
		o(&p)
	}
	return p
}

// FallbackOption is an option of [Fallback].
type FallbackOption func(*fallbackPolicy)

// Share makes the fallback enforce max(1, Requests/replicas) of every limit,
// for a service of that many replicas, at most 2^30. The default is 1: the whole limit.
func Share(replicas int) FallbackOption {
	return func(p *fallbackPolicy) { p.share = replicas }
}

// maxReplicas is the most that Share takes: what the fallbacks of all replicas have counted is
// a number of 64 bits.
const maxReplicas = 1 << 30

// lastCount is the time at which a fallback may last have counted a request. It is
// safe for concurrent use.
type lastCount struct {
	start time.Time    // at is measured from start
	at    atomic.Int64 // a result of now; 0 means never
}

// now returns the nanoseconds since start, at least 1.
func (c *lastCount) now() int64 { return int64(time.Since(c.start)) + 1 }

// note sets the last count to the present. A later time that another goroutine has
// noted stays (TestLaterNoteStays).
func (c *lastCount) note() {
	for now := c.now(); ; {
		if at := c.at.Load(); at >= now || c.at.CompareAndSwap(at, now) {
			return
		}
	}
}

// within reports whether there is a last count and it happened less than d ago.
func (c *lastCount) within(d time.Duration) bool {
	at := c.at.Load()
	return at != 0 && c.now()-at < int64(d)
}

// fallback is the second store of a limiter.
type fallback struct {
	boundRule                 // the limiter's rule, with the shares as its limits
	views       []view        // one for each limit of the rule
	replicas    int64         // the number given to Share
	lastCount   *lastCount    // shared by all limiters of the policy
	retention   time.Duration // the longest time for which the fallback counts a unit
	peekTimeout time.Duration // bounds a look at the fallback before the first store is asked
}

// view is one limit by itself, as the fallback counts it.
type view struct {
	boundRule
	share int64 // the requests that the fallback enforces
}

// bind returns the fallback of l. The config, the rule's name and the limits of l
// must be set.
func (p fallbackPolicy) bind(l *Limiter) (*fallback, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case isNil(p.store):
		return nil, fmt.Errorf("sash: the store of core.Fallback is %s: give one, such as memstore.New()",
			nilName(p.store))
	case sameStore(p.store, l.config.Store):
		return nil, fmt.Errorf("sash: the store of core.Fallback is Config.Store itself, a %T, so both fail "+
			"together: give another store, such as memstore.New(), or core.FailOpen or core.FailClosed", p.store)
	case p.share < 1 || p.share > maxReplicas:
		return nil, fmt.Errorf("sash: core.Share(%d): give the number of replicas, from 1 to %d", p.share, maxReplicas)
	}
	f := &fallback{replicas: int64(p.share), lastCount: p.lastCount, peekTimeout: l.config.Timeout / 2}
	shares := f.shares(l.limits)
	for _, limit := range shares {
		f.retention = max(f.retention, limit.retention())
	}
	var err error
	if f.boundRule, err = bind(p.store, l.ruleWith(shares)); err != nil {
		return nil, err
	}
	f.views = make([]view, len(shares))
	for i, limit := range shares {
		f.views[i].share = limit.Requests
		if f.views[i].boundRule, err = bind(p.store, l.ruleWith([]Limit{limit})); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// shares returns the limits that the fallback enforces in the place of limits.
func (f *fallback) shares(limits []Limit) []Limit {
	shares := slices.Clone(limits)
	for i := range shares {
		shares[i].Requests = max(1, shares[i].Requests/f.replicas)
	}
	return shares
}

// retention returns how long a unit counts under the limit after it was admitted.
// The limit must have been checked.
func (l Limit) retention() time.Duration {
	return time.Duration(l.Algorithm.properties().retention) * l.Window
}

// take decides a request about which the first store could not be asked.
func (f *fallback) take(ctx context.Context, r Request) (Decision, error) {
	counts := !r.Peek && r.Cost > 0 // else the fallback is not asked for longer (TestFallbackForgotten)
	if counts {
		// Before the fallback counts: from now on, other requests must look at it (TestCountIsNoted).
		f.lastCount.note()
	}
	ask := r.ask(0)
	if r.Limits != nil {
		ask.Special = &Special{r.Charge, f.shares(r.Limits)}
	}
	d, err := f.counts.Take(ctx, ask)
	if counts {
		// Again afterwards, because the unit was counted later than the first note (TestCountIsNoted).
		f.lastCount.note()
	}
	return d, err
}

// mayCount reports whether the fallback may still count a unit of any client.
func (f *fallback) mayCount() bool {
	return f.lastCount.within(f.retention)
}

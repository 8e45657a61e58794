package core

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

package core

import (
	"context"
	"time"
)

// Store keeps counts. The stores of this module are memstore and redisstore; storetest
// checks any other. It is safe for concurrent use. An error of a store may have a method
// Remedy() string, with what an operator can do: the lines of [LogErrors] say it.
type Store interface {
	// Bind prepares to count by rule. It must not talk to a server: a program starts while
	// its store is down. It is called while a program starts, and while it serves.
	//
	// Two bindings of the same Name and Rule share the count of each limit that has the same
	// Name, Algorithm and Window in both, in this process and in every other on the same
	// data. Requests is no part of a count's identity: a limit that is raised or lowered
	// keeps its history.
	Bind(rule Binding) (Ledger, error)
}

// Binding holds what a store counts by: limits that are enforced together under one name.
// It comes checked: there is at least one limit, every limit is valid and has a name, and no
// two names are the same.
type Binding struct {
	Name   string // Config.Name; may be empty
	Rule   string // the name given to Limiter.Rule; empty for the limiter itself
	Limits []Limit

	Timeout time.Duration // Config.Timeout, for a store that can say whether it is enough

	// Notice tells the observer of the limiter, once for each code, what the store has seen.
	// A code is a constant of the store's. Notice is nil if no observer would hear of it; any
	// goroutine may call it.
	Notice func(code, text string)
}

// Ledger decides requests by one rule. It is safe for concurrent use. Each method returns
// soon after ctx ends. Usage, Return and Reset are not called with a ctx that has ended.
type Ledger interface {
	// Take decides a request, and counts it if every limit of the rule admits it and it
	// is no peek.
	//
	//   - All limits are checked at one instant of the store's clock, then all are charged or
	//     none. No other request comes between.
	//   - A SlidingLog admits iff the units counted in (now-Window, now] plus cost are at most
	//     Requests. A request is counted at the newest of now and what is already counted.
	//   - Where what is counted is further ahead of now than 75 s, or than an eighth of the
	//     rule's shortest window, the clock has stepped back. All units that still count do so
	//     from now on. A store whose clock never steps back need not look.
	//   - A SlidingCounter admits by the formula of its doc comment, in IEEE doubles in the
	//     order written there.
	//   - A cost of 0 is admitted and counts nothing. A cost above Requests is refused and its
	//     RetryAfter is Never.
	//   - A refused request leaves no trace. A peek writes nothing and is answered alike.
	//   - Limits in ask.Override decide on the counts of the rule's.
	//   - A charge is counted and answered as an admission, whatever the limits say. The newest
	//     MaxLogRequests units of a SlidingLog must count, and MaxCounterRequests of a
	//     SlidingCounter in each fixed window.
	//
	// Source is [SourceCounted] (or its zero value), [SourceRemembered] or [SourceLeased]. With
	// an error nothing can be said about the request.
	//
	// Soon after ask.Timeout, Take returns an error that matches [ErrTimeout]. If the timeout is
	// a second or less, it need not return as soon as ctx is cancelled. A store that answers
	// from memory may ignore both; see [Immediate].
	Take(ctx context.Context, ask Ask) (Decision, error)

	// Usage returns what is counted for key: for each limit, in order, a Usage with Used,
	// ResetAfter and At. All are read at one instant, At, and nothing is written. Used is what a
	// Take of cost 0 is decided by, not cut off at Requests; units that a process has leased
	// are used. A store that does not know exactly may return more, never less.
	Usage(ctx context.Context, key string) ([]Usage, error)

	// Return takes back ask.Units of a request that Take has counted, under every limit at one
	// instant, and returns how many units count no more under any of them.
	//
	//   - All units count no more if the request is older than the window, and where nothing of
	//     the client counts.
	//   - From a SlidingLog the units stamped ask.At are taken, unless more than 1,000 entries
	//     are newer: then they stay. From a SlidingCounter they are taken from the fixed window
	//     of ask.At.
	//   - Units that cannot be found stay: never is more taken back than was counted.
	//   - What is taken back is free for the next Take, also where a refusal was remembered.
	//   - Units of a lease go back to the lease, if it lasts.
	//
	// A Return is sent once: after an error it may have taken effect.
	Return(ctx context.Context, ask Refund) (units int64, err error)

	// Reset forgets what is counted for key under the limits of the rule. It returns nil only
	// if all is forgotten.
	Reset(ctx context.Context, key string) error
}

// Ask is one request as a store gets it.
type Ask struct {
	Key  string // the client: any bytes, not empty
	Cost int64  // units, not negative; of a charge at most MaxCounterRequests
	Peek bool   // answer as if, but write nothing

	// Override says in what the request differs from others; nil if in nothing.
	Override *Override

	// Timeout is the time that the store has for its answer, from the call of Take: no
	// deadline, so that an answer from memory needs no look at a clock. With 0 the context
	// alone bounds the wait.
	Timeout time.Duration
}

// Override holds what few requests have, apart from the Ask so that all others need not
// carry it.
type Override struct {
	// Charge has Cost counted whatever the limits say. It does not come with Peek.
	Charge bool

	// Limits, if not nil, stand in for those of the rule, one for each, with other Requests.
	Limits []Limit

	// Ahead makes units of a lease count from its end, so much later than now. A limiter
	// leaves it 0.
	Ahead time.Duration
}

// Context returns ctx, ended with the cause [ErrTimeout] when the Timeout is over: for a
// store that waits on a context alone. The caller calls cancel when it has the answer.
func (a Ask) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	if a.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, a.Timeout, ErrTimeout)
}

// Refund says what [Ledger.Return] takes back.
type Refund struct {
	Key    string    // as in the Ask
	Cost   int64     // as in the Ask; the Decision was allowed, and no peek
	At     time.Time // Decision.At
	Source Source    // Decision.Source
	Units  int64     // from 1 to Cost
}

// Immediate is implemented by a Ledger that never waits for anything but a lock. Asked as a
// [Fallback], it needs no part of Config.Timeout, which then is the first store's alone.
type Immediate interface{ Immediate() }

// minTimeout is the least Config.Timeout. No store over a network answers within it, and
// a number without a unit, such as 100, is below it.
const minTimeout = 10 * time.Microsecond

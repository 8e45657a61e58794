package core

import (
	"context"
	"time"
)

// Store keeps counts; storetest checks any. It is safe for concurrent use. An error may have a method
// Hint() string: [LogErrors] says what to do.
type Store interface {
	// Bind prepares to count by rule. It must not talk to a server, and is called while a program starts or serves.
	// Bindings of one Name and Rule share the count of each limit of the same Name, Algorithm and Window, in every
	// process on the same data: of a Bucket, whatever the Window. A limit whose Requests change keeps its history.
	Bind(rule Binding) (Ledger, error)
}

// Binding is a rule for a store to count by. Its limits are valid, and their names differ.
type Binding struct {
	Name    string        // Config.Name; may be empty
	Rule    string        // the name given to Limiter.Rule; empty for the limiter itself
	Limits  []Limit       // enforced together
	Timeout time.Duration // Config.Timeout, for a store that can say whether it is enough

	// Notice is [Limiter.Notice], for any goroutine; nil if no observer takes notices.
	Notice func(code, text string)
}

// Ledger decides requests by one rule. It is safe for concurrent use. A method returns soon after ctx ends. A context
// that has ended already comes only with Take, and with Usage and Reset of a fallback.
type Ledger interface {
	// Take decides a request, and counts it if every limit admits it and it is no peek.
	//
	//   - All limits are checked at one instant of the store's clock, then all are charged or none. No other request
	//     comes between. A refused request leaves no trace. A peek writes nothing and is answered alike.
	//   - A SlidingLog admits iff the units counted in (now-Window, now] plus cost are at most Requests. A request is
	//     counted at the newest of now and what is already counted. Where that is ahead of now by more than 75 s, or
	//     than an eighth of the rule's shortest window, the clock has stepped back, and what still counts is
	//     restamped to now.
	//   - A CoarseLog is a SlidingLog in which a unit counts until the last microsecond of its slot is a Window old. A
	//     slot has Window/60, rounded up to whole microseconds. What is counted is at the beginning of its slot.
	//   - A SlidingCounter admits by the formula of its doc comment, in IEEE doubles in the order written there.
	//   - A Bucket holds what is owed, as a time: a request adds Window/Requests for each unit, and time takes it
	//     off. It admits iff a Window at most is owed then. Where Requests change, what is owed is rounded up to a
	//     Requests-th of a microsecond, to within 2^-40 of one.
	//   - A cost of 0 is admitted and counts nothing. A cost above Requests is refused for ever.
	//   - Limits in ask.Override decide on the counts of the rule's.
	//   - A charge is counted and answered as an admission. The newest MaxLogRequests units of a SlidingLog must
	//     count, for a window at least, and MaxCounterRequests of a SlidingCounter in each window, of a CoarseLog in
	//     each slot, and of a Bucket what is owed up to 2^52 microseconds.
	//
	// Source is [SourceCounted] (or its zero value), [SourceCached] or [SourceLeased]. With an Err nothing can be said
	// about the request. Soon after ask.Timeout, Take answers with one that matches [ErrTimeout]. If the timeout is at
	// most a second, it need not heed ctx. A store in memory may ignore both; see [Immediate].
	Take(ctx context.Context, ask Ask) Decision

	// Usage returns for each limit, in order, the Used, ResetAfter and At of a Usage, all at one instant, At. Used is
	// not cut off at Requests; units that a process has leased are used. It may exceed what was used, never fall short.
	Usage(ctx context.Context, key string) ([]Usage, error)

	// Return takes back ask.Units of a request that Take has counted, under every limit at one instant, and returns how
	// many units count no more under any of them. After an error it may have taken effect, and is not sent again.
	//
	//   - All units count no more if the request is older than the window, and where nothing of the client counts.
	//   - From a SlidingLog the units stamped ask.At are taken, unless more than 1,000 entries are newer. From a
	//     SlidingCounter they are taken from the fixed window of ask.At, from a CoarseLog from its slot.
	//   - From a Bucket the units' time is taken, less what time has paid: all, where ask.Cost costs no more than the
	//     time from ask.At to the newest request; else as much of that as something was owed in it, less what has
	//     paid for units that were returned before. It pays first for units of ask.Cost that stay. A charge of more
	//     than 2^51 microseconds leaves a Window owed, and while as much is owed nothing else is taken.
	//   - Units that cannot be found stay: never is more taken back than was counted.
	//   - Returned units are free for the next Take, also where a refusal was cached. Units of a lease go back to
	//     the lease, if it lasts.
	Return(ctx context.Context, ask Refund) (units int64, err error)

	// Reset deletes the counts of key under the limits of the rule. It returns nil only if all are deleted.
	Reset(ctx context.Context, key string) error
}

// Ask is one request as a store gets it.
type Ask struct {
	Key      string    // the client: any bytes, not empty
	Cost     int64     // units, not negative; of a charge at most MaxCounterRequests
	Peek     bool      // answer as if, but write nothing
	Override *Override // nil for most requests

	// Timeout is the time for the answer, from the call of Take; 0 leaves it to the context.
	Timeout time.Duration
}

// Override holds the parts of an Ask that few requests have.
type Override struct {
	Charge bool          // Cost is counted whatever the limits say; not with Peek
	Limits []Limit       // if not nil, in place of the rule's, one for each, on the same counts
	Delay  time.Duration // of a lease: its units are counted this long after now; 0 from a limiter
}

// Context returns ctx, ended with the cause [ErrTimeout] after the Timeout.
func (a Ask) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	if a.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, a.Timeout, ErrTimeout)
}

// Refund is a request to [Ledger.Return].
type Refund struct {
	Key    string    // as in the Ask
	Cost   int64     // of the Ask, less the units returned before; the Decision was allowed, and no peek
	At     time.Time // Decision.At
	Source Source    // Decision.Source
	Region string    // Decision.Region
	Units  int64     // from 1 to Cost
	Limits []Limit   // of the Ask's Override
}

// Usage holds the units that a client has used of a limit.
type Usage struct {
	Limit      Limit         // its name filled in
	Used       int64         // units that count now: above Limit.Requests if that was lowered
	Remaining  int64         // the rest of Limit.Requests, never negative
	ResetAfter time.Duration // as in a Decision; 0 when Used is 0
	At         time.Time     // the store's time, in whole microseconds, the same for all limits
}

// Immediate is implemented by a Ledger that waits for nothing but a lock.
type Immediate interface{ Immediate() }

// minTimeout is the least Config.Timeout. No store over a network answers within it, and
// a number without a unit, such as 100, is below it.
const minTimeout = 10 * time.Microsecond

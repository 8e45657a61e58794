package core

import (
	"context"
	"time"
)

// Store is where counts are kept. The stores of this module are memstore and
// redisstore; storetest checks any other.
//
// A Store is safe for concurrent use.
type Store interface {
	// Bind prepares to count by rule and returns what does it, or an error. It
	// must not talk to a server: a program starts while its store is down. It is
	// called while a program starts, and while it serves, for rules that it makes
	// then.
	//
	// Two rules of the same Name and the same Rule share the count of each limit that
	// has the same Name, Algorithm and Window in both, in this process and in every
	// other on the same data. Requests is not part of a count's identity: a limit that
	// is raised or lowered keeps its history.
	Bind(rule Binding) (Ledger, error)
}

// Binding holds what a store counts by: limits that are enforced together
// under one name. It comes checked from [New] and [Limiter.Rule]: there is at
// least one limit, every limit is valid and has a name, and no two names are
// the same.
type Binding struct {
	Name   string // Config.Name; may be empty
	Rule   string // the name given to Limiter.Rule; empty for the limiter itself
	Limits []Limit

	// Timeout is Config.Timeout, for a store that can say whether it is enough.
	// It is no part of the identity.
	Timeout time.Duration

	// Notice tells the observer of the limiter what the store has seen: each code once for a limiter and
	// its copies, whatever the text is. A code is a constant of the store's; what a client sends must not be
	// part of it. Notice is nil if no observer would hear of it. Any goroutine may call it.
	Notice func(code, text string)
}

// Ledger decides requests by one rule. It is safe for concurrent use.
type Ledger interface {
	// Take decides a request, and counts it if every limit of the rule admits it and it
	// is no peek.
	//
	//   - All limits are checked at one instant of the store's clock, then
	//     all are charged or none. No other request comes between.
	//   - A SlidingLog admits iff the units counted in (now-Window, now] plus
	//     cost are at most Requests. Stamps never run backwards: a request is
	//     counted at the newest of now and what is already counted.
	//   - If what is already counted is further ahead of now than 75 s, or
	//     than an eighth of the rule's shortest window, the clock has stepped back
	//     by that much. All units that still count do so from now on: they leave
	//     one Window from now. A SlidingCounter has them all in its current
	//     window. A store whose clock never steps back need not look.
	//   - A SlidingCounter admits by the formula of its doc comment, in IEEE
	//     doubles in the order written there.
	//   - A cost of 0 is admitted and counts nothing. A cost above Requests
	//     is refused and its RetryAfter is Never.
	//   - A refused request leaves no trace, but for the units that count from
	//     now on.
	//   - A peek writes nothing; its answer is the one that the request would have
	//     got.
	//   - With limits in ask.Override the request is decided by those limits, on the
	//     counts of the rule's.
	//   - A charge is counted as if it were admitted, whatever the limits say, and is
	//     answered as an admission. A store may count less of it, if no later decision
	//     under any limit can tell: of a SlidingLog the newest MaxLogRequests units
	//     must count, of a SlidingCounter MaxCounterRequests in each fixed window.
	//
	// The Decision's fields are filled as their comments say. Source is [SourceCounted], for
	// which its zero value stands too, [SourceRemembered] or [SourceLeased]; the limiter ignores Err.
	// An error beside the Decision means that nothing can be said about the request.
	//
	// Take returns soon after ctx ends, and soon after ask.Timeout with an error that
	// matches [ErrTimeout]. If the timeout is a second or less, Take need not return as
	// soon as ctx is cancelled: the timeout, and a deadline of ctx, bound the wait all
	// the same. A store that answers from memory may ignore both; see [Immediate].
	Take(ctx context.Context, ask Ask) (Decision, error)

	// Usage returns what is counted for key: for each limit of the rule, in their order, a
	// Use with Used, ResetAfter and At. The limiter fills in the rest.
	//
	//   - All limits are read at one instant of the store's clock, At, and nothing is
	//     written.
	//   - Used and ResetAfter are what a Take of cost 0 is decided by, each limit for
	//     itself. Used is not cut off at Requests.
	//   - Units that a process has leased are used.
	//   - A store that does not know exactly may return more units than count, never less.
	//
	// The slice is the caller's. Usage returns soon after ctx ends. A limiter does not call
	// it with a context that has ended.
	Usage(ctx context.Context, key string) ([]Usage, error)

	// Return takes back ask.Units of what Take has counted for a request, under every
	// limit of the rule, and returns how many units count no more under any of them.
	//
	//   - All limits are looked at and changed at one instant of the store's clock.
	//   - Of a request that is older than the window all units count no more, and so they
	//     do where nothing of the client counts, as after a Reset.
	//   - From a SlidingLog the units stamped ask.At are taken, unless more than
	//     1,000 entries are newer: then they stay. From a SlidingCounter they
	//     are taken from the fixed window of ask.At.
	//   - Units that cannot be found, since the store has merged or moved them, stay.
	//     So never is more taken back than was counted. But a store that has counted less
	//     than a charge, see Take, need not know of what it left out.
	//   - What is taken back is free for the next Take, in this process also where a
	//     refusal was remembered.
	//   - Units of a lease go back to the lease, if it lasts.
	//
	// A Return is sent once: if its error does not say that nothing was sent, it may have
	// taken effect. It returns soon after ctx ends. A limiter does not call it with a
	// context that has ended.
	Return(ctx context.Context, ask Refund) (units int64, err error)

	// Reset forgets what is counted for key under the limits of the rule. It
	// returns soon after ctx ends, and nil only if all is forgotten. A limiter
	// does not call it with a context that has ended.
	Reset(ctx context.Context, key string) error
}

// Ask is one request as a store gets it.
type Ask struct {
	Key  string // the client: any bytes, not empty
	Cost int64  // units, not negative; of a charge at most MaxCounterRequests
	Peek bool   // answer as if, but write nothing

	// Override says in what the request differs from others; nil if in nothing.
	Override *Override

	// Timeout is the time that the store has for its answer, from the call of Take.
	// It is not a deadline, so that an answer from memory needs no look at a clock.
	// With 0 the context alone bounds the wait. A store that waits before it asks another
	// gives that what is left.
	Timeout time.Duration
}

// Override holds what few requests have, apart from the Ask so that all others need not
// carry it.
type Override struct {
	// Charge has Cost counted whatever the limits say. It does not come with Peek.
	Charge bool

	// Limits, if not nil, stand in for the limits of the rule, one for each. They differ
	// from them in Requests alone.
	Limits []Limit

	// Ahead is how much later than now the request is counted, if it is admitted: units
	// that are taken for a lease count from its end. A limiter leaves it 0, so a store
	// that no leases are put around need not know it. It comes with no counter, no Peek,
	// Charge or Limits.
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

// DefaultTimeout is the Config.Timeout that 0 stands for.
const DefaultTimeout = 100 * time.Millisecond

// minTimeout is the least Config.Timeout. No store over a network answers within it, and
// a number without a unit, such as 100, is below it.
const minTimeout = 10 * time.Microsecond

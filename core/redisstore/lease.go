package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/ask"
	"github.com/sashlimit/sash/core/redisstore/internal/lease"
)

// WithLease makes a process take units of a busy client's limit ahead, and
// spend them without asking Redis: at most size at a time, for at most
// lifetime. It is for a client that several processes decide about thousands
// of times a second. It gives up exactness on one side only: requests may be
// refused early, never admitted too many. size is from 2 to
// [core.MaxLogRequests], lifetime from 1 ms to a minute;
// WithLease(1000, 100*time.Millisecond) is a start. A lifetime is to be several
// round trips to Redis: of a lease only what is left of it then can be spent.
//
// A lease is at most a tenth of the smallest limit of its rule and lasts at most
// a tenth of the shortest window. So a rule that allows less than 20, or has a
// window under 10 ms, is decided as without WithLease, and so is one that has a
// SlidingCounter among its limits. So are clients that are not busy in this
// process: only one that asks for some four units in a lifetime is leased, and
// then as much as it asks for in half a lifetime, or twice what it has asked for
// since the last lease if that is less. What does not fit the lease takes a new
// one; a cost above the most that a lease may be asks Redis by itself.
//
// With limits of N in W, leases of lifetime D (the longest of all processes),
// and a server whose clock does not step:
//
//   - No window of length W holds more than N, whatever crashes, however late
//     or lost a reply. A lease is counted in the log, all of it at once, at its
//     end: no sooner than any of it is spent. This process reckons the end from
//     before it asked, and a thousandth sooner, since clocks differ in pace.
//   - A request of cost n is refused only if the admissions of the last W + D,
//     plus the units that were taken in that time and that nobody has spent,
//     plus n exceed N. Unspent are the rest of a lease that ends, or that gives
//     way to a new one; what a process held that crashes; and a lease whose
//     reply was lost. A caller that leaves wastes nothing: its lease is there for
//     the next.
//   - A unit that is spent counts for between W and W + D. So where more is asked
//     for than there is, the rate is at least N / (W + D), which is ten
//     elevenths of N / W or more, less what is unspent.
//
// A clock that steps forward by S while a lease lasts, or a failover to a server
// whose clock is ahead by S, makes the lease end up to S after it is counted. One
// that steps back until a lease is more than 75 s or an eighth of the shortest window
// ahead makes what is ahead count from then on: units of a lease that are spent after
// the step count for up to D less than a window. A rule with a shorter window on the
// same counts does the same to a lease that is longer than an eighth of that window.
//
// A decision without asking Redis tells in Remaining what was left for all when
// the lease was taken and what is left of the lease; in ResetAfter what it was
// then, less the time since, and at least 1 µs; in At the server's time as
// reckoned from then, never running backwards within a lease and never after its
// end. Refusals are Redis's, or remembered from it: RetryAfter is exact, unspent
// units being counted. Peeks and costs of 0 are answered from a lease that has
// enough.
//
// Reset ends the leases of this process on the client; those of others live on
// for at most their lifetime. While Redis cannot be asked, leases are spent;
// then the policy decides. At most 16,384 clients are leased at a time; others
// ask Redis.
func WithLease(size int64, lifetime time.Duration) Option {
	return func(s *Store) {
		switch {
		case size < lease.MinSize || size > core.MaxLogRequests:
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease is of %d to %d units, such as 1000; "+
				"to have none, leave WithLease out", size, lifetime, lease.MinSize, core.MaxLogRequests)
		case lifetime < lease.MinLifetime || lifetime > lease.MaxLifetime:
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease lasts from %v to %v, "+
				"such as 100*time.Millisecond", size, lifetime, lease.MinLifetime, lease.MaxLifetime)
		default:
			s.terms = lease.Terms{Size: size, Lifetime: lifetime}
			s.leases = lease.NewTable(ended)
		}
	}
}

// leased returns r with leases in front of it, or r if its rule does not allow them.
func (s *Store) leased(r *remembered) core.Counts {
	if s.leases == nil {
		return r
	}
	terms, ok := s.terms.For(r.counts.rule.Limits)
	if !ok {
		return r
	}
	return s.leases.Rule(terms, &behind{r, r.counts.aheadBy(terms.Lifetime)})
}

// behind is the chain behind the leases of a rule.
type behind struct {
	*remembered
	ahead *counts // at the end of a lease that begins now
}

var _ lease.Store = (*behind)(nil)

// Remembered implements [lease.Store].
func (b *behind) Remembered(a core.Ask) (d core.Decision, found, mustAsk bool) {
	found, mustAsk = b.lookup(&a, &d)
	return d, found, mustAsk
}

// Take implements [lease.Store].
func (b *behind) Take(ctx context.Context, q ask.Request) (core.Decision, error) {
	return b.take(ctx, &request{Request: q, counts: b.counts})
}

// TakeAhead implements [lease.Store]. A refusal is not remembered: what cannot be leased may still be admitted now.
func (b *behind) TakeAhead(ctx context.Context, q ask.Request) (core.Decision, error) {
	d, err := b.next.take(ctx, &request{Request: q, counts: b.ahead})
	if err == nil && d.Allowed {
		b.refusals.Note(q.Key, q.Cost, q.Began, d)
	}
	return d, err
}

// Now implements [lease.Store].
func (*behind) Now() time.Time { return time.Now() }

package lease

import (
	"time"

	"github.com/sashlimit/sash/core"
)

// lease is the state of one client: its recent rate, and the units taken ahead, if any. The shard's lock guards it.
type lease struct {
	since    time.Time // start of the period in which admitted is counted
	admitted int64     // units admitted since then

	left     int64         // unspent units
	until    time.Time     // end of the lease
	reply    core.Decision // the reply that granted the units; its At is the end of the lease
	after    time.Time     // exclusive lower bound of the At of decisions from this lease; reply.At is the upper bound
	lastAt   time.Time     // latest At of the decisions from all leases of the client
	received time.Time     // arrival of the reply

	retry     time.Time     // the store refuses the client before this time
	renewal   *renewal      // the renewal in flight, or nil
	roundTrip time.Duration // duration of the store's last admission
}

// answer is a reply of the next ledger with its times. The zero value means no reply.
type answer struct {
	sent     time.Time
	received time.Time
	units    int64
	reply    core.Decision
}

// canUse reports whether the lease covers cost at now.
func (e *lease) canUse(now time.Time, cost int64) bool {
	return e.left > 0 && e.left >= cost && e.isValid(now)
}

// isValid reports whether the lease lasts beyond now. Both the monotonic and the wall clock must be before the end: the
// monotonic clock may stop while the process is suspended, and the wall clock may be set back.
func (e *lease) isValid(now time.Time) bool {
	return now.Before(e.until) && now.Round(0).Before(e.until.Round(0))
}

// use returns the decision on a request that the lease covers, and subtracts its cost unless it is a peek.
func (e *lease) use(now time.Time, cost int64, peek bool, lifetime time.Duration) core.Decision {
	// The server's clock has advanced by at least this duration since the reply, and by less than the lifetime.
	later := now.Sub(e.received).Truncate(time.Microsecond)
	d := e.reply
	d.Source = core.SourceLeased
	d.At = d.At.Add(later - lifetime)
	if !d.At.After(e.after) {
		d.At = e.after.Add(time.Microsecond)
	}
	e.lastAt = d.At
	d.Remaining += e.left - cost
	d.ResetAfter = max(d.ResetAfter-later, time.Microsecond)
	if !peek {
		e.left -= cost
		e.admitted += cost
	}
	return d
}

// size returns the number of units to take ahead for requests of the given cost: the client's demand in half a
// lifetime, and at most twice the units admitted since the last lease, because a burst predicts little.
func (e *lease) size(now time.Time, cost int64, terms Terms) int64 {
	elapsed := max(now.Sub(e.since), time.Nanosecond)
	rate := float64(e.admitted) / float64(elapsed)
	size := int64(min(float64(terms.Size), float64(2*e.admitted), rate*float64(terms.Lifetime)/2))
	return size - size%cost // requests of one cost leave no unit unspent
}

// record updates the client's rate from the next ledger's answer to a single request.
func (e *lease) record(a answer, lifetime time.Duration) {
	switch {
	case a.reply.Err != nil: // the rate is unchanged: with smaller leases more requests would fail
	case a.reply.Allowed:
		e.retry = time.Time{} // a reset may have ended the refusal early
		e.roundTrip = a.received.Sub(a.sent)
		if a.received.Sub(e.since) > lifetime {
			e.since, e.admitted = a.sent, 0
		}
		e.admitted += a.units
	default:
		retry := a.sent.Add(a.reply.RetryAfter)
		if !a.received.Before(e.retry) {
			// The rate excludes the time in which the client is refused.
			e.since = e.since.Add(retry.Sub(a.received))
		}
		e.retry = retry
	}
}

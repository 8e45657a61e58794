package lease

import (
	"time"

	"github.com/sashlimit/sash/core"
)

// lease holds the knowledge of a client: how much the client asks for, and the units that were taken ahead, if any.
// The shard's lock guards it.
type lease struct {
	since time.Time // the start of the time in which asked is counted
	asked int64     // units that were admitted since then

	left     int64         // units that are left to spend
	until    time.Time     // the end of the lease
	reply    core.Decision // the reply with which the units were taken; it is stamped with the end of the lease
	after    time.Time     // exclusive lower bound of the At of decisions from this lease; reply.At is the upper one
	given    time.Time     // the latest At that a decision from any lease of the client has been given
	received time.Time     // when the reply came

	retry   time.Time     // until then the store refuses the client
	renewal *renewal      // the renewal under way, or nil
	took    time.Duration // the duration of the last admission by the store
}

// answer is the store's answer to a question; the zero value is none.
type answer struct {
	sent     time.Time
	received time.Time
	units    int64
	reply    core.Decision
}

// has reports whether cost can be spent at now.
func (e *lease) has(now time.Time, cost int64) bool {
	return e.left > 0 && e.left >= cost && e.lasts(now)
}

// lasts reports whether the lease is not over at now. While a process is suspended, its monotonic clock may stand still
// and its wall clock goes on: now must be before the lease's end by both (TestClocks).
func (e *lease) lasts(now time.Time) bool {
	return now.Before(e.until) && now.Round(0).Before(e.until.Round(0))
}

// spend answers a request that is within a lease of the given lifetime, and counts it unless it is a peek.
func (e *lease) spend(now time.Time, cost int64, peek bool, lifetime time.Duration) core.Decision {
	// The server's clock has advanced by at least this much since the reply, and by less than the lifetime, since now
	// is before until.
	later := now.Sub(e.received).Truncate(time.Microsecond)
	d := e.reply
	d.Source = core.SourceLeased
	d.At = d.At.Add(later - lifetime)
	if !d.At.After(e.after) {
		d.At = e.after.Add(time.Microsecond)
	}
	e.given = d.At
	d.Remaining += e.left - cost
	d.ResetAfter = max(d.ResetAfter-later, time.Microsecond)
	if !peek {
		e.left -= cost
		e.asked += cost
	}
	return d
}

// want returns how much to take ahead, for requests of the given cost: as much as the client asks for in half a
// lifetime, or twice what it has asked for since the last lease if that is less: a burst says little about what comes
// next. See TestWant.
func (e *lease) want(now time.Time, cost int64, terms Terms) int64 {
	elapsed := max(now.Sub(e.since), time.Nanosecond)
	rate := float64(e.asked) / float64(elapsed)
	want := int64(min(float64(terms.Size), float64(2*e.asked), rate*float64(terms.Lifetime)/2))
	return want - want%cost // so that requests of one cost leave nothing unspent
}

// learn learns from the answer to a request that was asked alone what the client asks for.
func (e *lease) learn(a answer, lifetime time.Duration) {
	switch {
	case a.reply.Err != nil: // asked stays as it is: with smaller leases more requests would fail
	case a.reply.Allowed:
		e.retry = time.Time{} // it may be long until then, if there has been a reset (TestLearn)
		e.took = a.received.Sub(a.sent)
		if a.received.Sub(e.since) > lifetime {
			e.since, e.asked = a.sent, 0
		}
		e.asked += a.units
	default:
		retry := a.sent.Add(a.reply.RetryAfter)
		if !a.received.Before(e.retry) {
			// A time in which the client is refused tells nothing about its rate (TestLearn).
			e.since = e.since.Add(retry.Sub(a.received))
		}
		e.retry = retry
	}
}

package lease

import (
	"cmp"
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	// renewTimeout is the longest wait for the renewals of other callers, unless a round trip takes longer: see
	// reserve. A renewal is lost after this time, or twice the last round trip if that is longer.
	renewTimeout = core.DefaultTimeout / 2

	// nextRenewTimeout is the longest wait for a further renewal, after other callers have spent the first lease.
	nextRenewTimeout = 20 * time.Millisecond
)

// startWait sets q's start, deadline and maxWait, and its Timeout if it has none. maxWait is at most half of the time,
// because the reply may be lost.
func (q *request) startWait() {
	q.start, q.Timeout = time.Now(), cmp.Or(q.Timeout, MaxLifetime)
	q.deadline, q.maxWait = q.start.Add(q.Timeout), min(renewTimeout, q.Timeout/2)
}

// updateTimeout sets the Timeout of q to the rest of its time, and reports whether there is none.
func (q *request) updateTimeout() (late bool) {
	left := time.Until(q.deadline)
	q.Timeout = max(left, 1) // 0 would mean no timeout
	return left <= 0
}

// reserve reports whether q shall wait for the renewal. If a round trip takes longer than q.maxWait, a request to the
// next ledger after the wait would be late too. Then reserve extends the wait to q's deadline, and sets units of the
// lease aside for q; it returns false if too few are free. The shard's lock must be held.
func (r *renewal) reserve(q *request) bool {
	if r.lease.roundTrip <= q.maxWait*3/4 { // a quarter is spare, for a slower round trip
		return true
	}
	if r.free < q.Cost {
		return false
	}
	r.free -= q.Cost
	q.maxWait = q.Timeout
	return true
}

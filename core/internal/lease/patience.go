package lease

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	// renewalPatience bounds the time that a request waits for the renewals of other callers, unless a round trip takes
	// longer: see reserve. A renewal that takes longer than that, and than twice the last one, is taken for lost. See
	// TestPatientCrowd.
	renewalPatience = core.DefaultTimeout / 2

	// nextPatience is the time that a request waits for another renewal, after other callers have spent the lease of the
	// first one: they may be faster again.
	nextPatience = 20 * time.Millisecond
)

// begin sets when q begins to wait, until when, and how long for renewals by other callers: at most half of its time,
// since the reply may be lost.
func (q *request) begin(ctx context.Context) {
	q.began, q.patience = time.Now(), renewalPatience
	if q.Timeout > 0 {
		q.deadline = q.began.Add(q.Timeout)
		q.patience = min(q.patience, q.Timeout/2)
	}
	if end, ok := ctx.Deadline(); ok {
		q.patience = min(q.patience, end.Sub(q.began)/2)
	}
}

// elapse sets the Timeout of q to what is left of it, and reports whether that is nothing.
func (q *request) elapse() (late bool) {
	if q.deadline.IsZero() {
		return false
	}
	left := time.Until(q.deadline)
	q.Timeout = max(left, 1) // 0 would be none
	return left <= 0
}

// reserve makes q one of the requests that wait for the renewal. Where the last round trip took longer than the
// request's patience, to ask after the wait would be too late as well. Then the request waits for as long as it has
// time and the renewal is not lost, but only if the lease can serve it: reserve returns false if it cannot. See
// TestReserve and TestLongWayLost. The shard's lock must be held.
func (r *renewal) reserve(q *request) bool {
	if r.lease.took <= q.patience*3/4 { // a quarter is left for a round trip that takes a little longer
		return true
	}
	if r.free < q.Cost {
		return false
	}
	r.free -= q.Cost
	q.patience = r.lost.Sub(q.began)
	if !q.deadline.IsZero() {
		q.patience = q.deadline.Sub(q.began)
	}
	return true
}

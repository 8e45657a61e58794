package gather

import "time"

// lostAfter is how long a batch is under way at least before it is presumed lost (TestNotLostEarly), and the least time
// between two batches of which that is presumed (TestStall).
const lostAfter = 20 * time.Millisecond

// A batch is presumed lost if it has been under way for lostAfter and for twice the round trip. It frees its slot, so
// that calls that come later do not wait behind it (TestLostFreesItsSlot); its own callers may be patient and go on
// waiting. A server that is slow is not taken for one that loses replies, since the round trip tells how slow it is
// (TestOverload). While the server does not answer at all, one batch every lostAfter is presumed lost, so that the
// server does not come back to a flood of batches.

// replies has what is known of the server's replies. The queue's lock guards it.
type replies struct {
	newest    time.Time     // when the newest batch was sent of all that have been answered
	roundTrip time.Duration // how long its reply took
	lastLost  time.Time     // when a batch was presumed lost last
}

// overtaken reports whether a batch that was sent later than at the given time has been answered.
func (r *replies) overtaken(sentAt time.Time) bool { return sentAt.Before(r.newest) }

// observe notes the reply to a batch. The reply to a batch that has been overtaken does not count: it tells about the
// past. Otherwise one reply that is hours late would make it appear usual that replies take hours (TestOvertakenReply).
func (r *replies) observe(sentAt time.Time, took time.Duration) {
	if !r.overtaken(sentAt) {
		r.newest, r.roundTrip = sentAt, took
	}
}

// lostAt returns when a batch that was sent at a time is to be presumed lost. A batch that has been overtaken does not
// wait until lostAfter has passed since the last one: the server does answer. So there are slots enough also where
// replies take now a short time, now a long one (TestUnsteadyWay).
func (r *replies) lostAt(sentAt time.Time) time.Time {
	at := sentAt.Add(max(lostAfter, 2*r.roundTrip))
	if r.overtaken(sentAt) {
		return at
	}
	return later(at, r.lastLost.Add(lostAfter))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

package batch

import (
	"slices"
	"time"
)

// The number of slots, by the state of the server and the calls. Measured on two processors (make bench-http,
// TestWaitingCallsGoTogether, TestOverload).
const (
	// Ordinarily. With fewer, 4 callers wait for each other, and 64 leave the server idle at times; with more the
	// batches of 64 callers are smaller for nothing.
	minSlots = 4

	// While a near server has at least busyCalls calls: one batch to work on, and one on its way.
	busySlots, busyCalls = 2, 12

	// While replies are slow: a server that works on one batch after another answers each of them all the later.
	slowSlots = 3

	// While a backlog waits for a server that is far away.
	maxSlots = 16
)

const (
	nearReply = time.Millisecond      // a server that replies sooner is near
	slowReply = 50 * time.Millisecond // a server that takes as long may have too much to do

	// A backlog is more waiting calls than this: minSlots serve as many at a time.
	backlog = 2 * MaxBatch

	// lostAfter is the least time in flight before a batch is presumed lost, and the least time between two
	// batches that are.
	lostAfter = 20 * time.Millisecond
)

// slots counts the batches in flight, and holds what is known of the server's replies. The queue's lock guards it.
type slots struct {
	total int // busySlots to maxSlots
	max   int // Config.MaxSlots
	used  int // by batches in flight that are not lost

	// reserved slots are for workers that were woken or started, and have not taken calls yet.
	reserved int

	latest    time.Time     // when the newest batch was sent of all that have been answered
	roundTrip time.Duration // how long its reply took
	lastLost  time.Time     // when a batch was presumed lost last
}

// full reports whether no slot is free.
func (s *slots) full() bool { return s.used+s.reserved >= min(s.total, s.max) }

// start takes a slot for a batch that is sent now. q.mu must be held.
func (q *Queue[Q, A]) start(b *batch[Q, A], now time.Time) {
	b.sentAt, b.inTime, b.lost = now, false, false
	q.slots.used++
	q.inFlight = append(q.inFlight, b)
	q.wakeTimerBy(now.Add(lostAfter))
}

// end gives the slot of a batch back when Serve has returned. q.mu must be held.
func (q *Queue[Q, A]) end(b *batch[Q, A], now time.Time) {
	i := slices.Index(q.inFlight, b)
	q.inFlight = slices.Delete(q.inFlight, i, i+1)
	s, elapsed, waiting := &q.slots, now.Sub(b.sentAt), len(q.waiting)
	// Where Serve gave up there was no reply. A reply that newer batches have overtaken tells about the past: one that
	// is hours late does not mean that replies take hours.
	if b.inTime && !b.sentAt.Before(s.latest) {
		s.latest, s.roundTrip = b.sentAt, elapsed
	}
	if waiting == 0 && cap(q.waiting) > backlog {
		q.waiting = nil // a backlog has made it large
	}
	if b.lost { // its slot is free already, and its time does not tell how fast the server is
		return
	}
	s.used--
	calls, slow := q.load(now)
	s.adapt(elapsed, len(b.calls)+calls, waiting, slow)
}

// load returns the number of calls that wait or are in flight, and the number of slots that are taken for longer than
// a near server needs. q.mu must be held.
func (q *Queue[Q, A]) load(now time.Time) (calls, slow int) {
	calls = len(q.waiting)
	for _, b := range q.inFlight {
		if b.lost {
			continue
		}
		calls += len(b.calls)
		if now.Sub(b.sentAt) >= nearReply {
			slow++
		}
	}
	return calls, slow
}

// adapt changes the number of slots after a reply. With many calls at a near server there are busySlots, and one for
// each slow slot. Otherwise a slow reply removes a slot, down to slowSlots (of 2 it makes 3); one that is not slow adds
// a slot while there are fewer than minSlots, or while a backlog waits; one that leaves no call waiting removes a slot.
func (s *slots) adapt(elapsed time.Duration, calls, waiting, slow int) {
	switch {
	case elapsed < nearReply && calls >= busyCalls:
		s.total = min(busySlots+slow, max(minSlots, s.total))
	case elapsed >= slowReply:
		s.total = max(slowSlots, s.total-1)
	case s.total < minSlots:
		s.total++
	case waiting == 0:
		s.total = max(minSlots, s.total-1)
	case waiting > backlog:
		s.total = min(maxSlots, s.total+1)
	}
}

// lostAt returns when a batch that was sent at sentAt is presumed lost: after lostAfter or twice the round trip. Its
// slot is free then, and later calls do not wait behind it; its own callers may go on waiting. While the server does
// not answer at all, one batch every lostAfter is presumed lost, so that the server does not come back to a flood.
// Where newer batches have been answered, a batch does not wait for its turn: the server does answer.
func (s *slots) lostAt(sentAt time.Time) time.Time {
	at := sentAt.Add(max(lostAfter, 2*s.roundTrip))
	if turn := s.lastLost.Add(lostAfter); turn.After(at) && !sentAt.Before(s.latest) {
		return turn
	}
	return at
}

package gather

import (
	"slices"
	"time"
)

const (
	// minSlots is how many batches may be under way at a time. By measurement on two processors, with fewer 4 callers
	// wait for each other, and 64 leave the server without work at times; with more the batches of 64 callers are
	// smaller for nothing. See TestWaitingCallsGoTogether.
	minSlots = 4

	// busySlots is how many batches may be under way while a near server has busyCalls calls or more at hand: one to
	// work on, and one on its way. With more the batches are smaller, and a call costs more of all processors. Fewer
	// callers need minSlots. See TestAdapt.
	busySlots, busyCalls = 2, 12

	// A server is near while its replies take less time than this. If they take longer, more batches have to be under
	// way for the server not to wait.
	nearReply = time.Millisecond

	// fewestSlots is how many batches may be under way while replies are not prompt: a server that works on one batch
	// after another answers each of them all the later. See "slowest" in TestOverload.
	fewestSlots = 3

	// maxSlots is how many batches may be under way while a crowd waits for a server that is far away: see "a longer
	// way" in TestOverload.
	maxSlots = 16

	// A crowd is more waiting calls than this. It is as many as get by with minSlots: see TestAdapt.
	crowd = 2 * MaxBatch

	// A reply that takes less time than this speaks for another slot. One that takes longer speaks against it: the
	// server may have too much to do, and would answer more batches at a time all the later. See "far too many" in
	// TestOverload.
	promptReply = 50 * time.Millisecond

	// A server is far away if so many round trips to it take longer than a caller has time, as they do where a new
	// connection has to be made. Then callers do not serve their own calls, since they could not leave while one is
	// being made. See TestInline.
	farTrips = 8

	// lostAfter is how long a batch is under way at least before it is presumed lost, and the least
	// time between two batches of which that is presumed (TestLostAt).
	lostAfter = 20 * time.Millisecond
)

// slots counts the batches that may be under way, and holds what is known of the server's replies. The queue's lock
// guards it.
type slots struct {
	total int  // busySlots to maxSlots
	most  int  // see Config
	held  bool // a batch waits for a connection
	used  int  // by batches under way that are not lost

	// coming is how many slots are kept for workers that were woken or started, and have not taken calls yet.
	coming int

	newest    time.Time     // when the newest batch was sent of all that have been answered
	roundTrip time.Duration // how long its reply took
	lastLost  time.Time     // when a batch was presumed lost last
}

// taken reports whether no other batch may be under way.
func (s *slots) taken() bool { return s.held || s.used+s.coming >= min(s.total, s.most) }

// begin notes that a batch is sent now, and takes a slot for it. q.mu must be held.
func (q *Queue[Q, A]) begin(b *batch[Q, A], now time.Time) {
	b.sentAt, b.inTime, b.lost, b.held = now, false, false, time.Time{}
	q.slots.used++
	q.underWay = append(q.underWay, b)
	q.wakeTimerBy(now.Add(lostAfter))
}

// end notes that a batch is under way no more, and gives its slot back. q.mu must be held.
func (q *Queue[Q, A]) end(b *batch[Q, A], now time.Time) {
	i := slices.Index(q.underWay, b)
	q.underWay = slices.Delete(q.underWay, i, i+1)
	s, took, waiting := &q.slots, now.Sub(b.sentAt), len(q.waiting)
	// Where Serve gave up there was no reply (TestRoundTrip). One that newer batches have overtaken tells about
	// the past: if it is hours late, replies do not usually take hours (TestRoundTrip).
	if b.inTime && !b.sentAt.Before(s.newest) {
		s.newest, s.roundTrip = b.sentAt, took
	}
	if waiting == 0 && cap(q.waiting) > crowd {
		q.waiting = nil // a crowd has made it large (TestRandom)
	}
	if b.lost { // it holds no slot, and says nothing about a prompt server (TestShorterRoundTrip)
		return
	}
	s.used--
	calls, held := q.load(now)
	s.adapt(took, len(b.calls)+calls, waiting, held)
}

// load returns how many calls are at hand, waiting or under way, and how many slots are held for longer than by a near
// server. q.mu must be held.
func (q *Queue[Q, A]) load(now time.Time) (calls, held int) {
	calls = len(q.waiting)
	for _, b := range q.underWay {
		if b.lost {
			continue
		}
		calls += len(b.calls)
		if now.Sub(b.sentAt) >= nearReply {
			held++
		}
	}
	return calls, held
}

// adapt changes the number of slots after a reply, by how long it took, how many calls were at hand and how many of
// them wait, and how many slots are held for long: a crowd does not wait for these (TestLostFreesItsSlot). Each reply
// that comes promptly while a crowd waits, or while there are fewer than minSlots, adds one. Each that takes long, or
// leaves nothing waiting, removes one: see TestAdapt.
func (s *slots) adapt(took time.Duration, calls, waiting, held int) {
	switch {
	case took < nearReply && calls >= busyCalls:
		s.total = min(busySlots+held, max(minSlots, s.total)) // see TestAdapt
	case took >= promptReply:
		s.total = max(fewestSlots, s.total-1)
	case s.total < minSlots:
		s.total++
	case waiting == 0:
		s.total = max(minSlots, s.total-1)
	case waiting > crowd:
		s.total = min(maxSlots, s.total+1)
	}
}

// A batch is presumed lost if it has been under way for lostAfter and for twice the round trip. It frees its slot, so
// that calls that come later do not wait behind it (TestLostFreesItsSlot); its own callers may be patient and go on
// waiting. A server that is slow is not taken for one that loses replies, since the round trip tells how slow it is
// (TestOverload). While the server does not answer at all, one batch every lostAfter is presumed lost, so that the
// server does not come back to a flood of batches.

// lostAt returns when a batch that was sent at a time is to be presumed lost. Where newer batches have been answered,
// it does not wait until lostAfter has passed since the last one: the server does answer. So there are slots enough
// also where replies take now a short time, now a long one (TestLostAt).
func (s *slots) lostAt(sentAt time.Time) time.Time {
	at := sentAt.Add(max(lostAfter, 2*s.roundTrip))
	if turn := s.lastLost.Add(lostAfter); turn.After(at) && !sentAt.Before(s.newest) {
		return turn
	}
	return at
}

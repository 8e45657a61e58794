package batch

import (
	"testing"
	"time"
)

// TestAdapt: how many slots there are after a reply.
func TestAdapt(t *testing.T) {
	const near, prompt, slow = nearReply - 1, nearReply, slowReply
	for _, test := range []struct {
		total                int
		elapsed              time.Duration
		calls, waiting, held int
		want                 int
	}{
		{minSlots, near, busyCalls, 5, 0, busySlots},
		{minSlots, near, busyCalls - 1, 5, 0, minSlots},
		{minSlots, prompt, busyCalls, 5, 0, minSlots},
		{busySlots, near, busyCalls, 0, 1, busySlots + 1},
		{minSlots, near, busyCalls, 0, 9, minSlots},
		{minSlots + 2, near, busyCalls, 0, 9, minSlots + 2},
		{minSlots + 2, slow, 0, backlog + 1, 0, minSlots + 1},
		{slowSlots, slow, 0, 0, 0, slowSlots},
		{busySlots, prompt, 0, 0, 0, busySlots + 1},
		{minSlots + 3, prompt, 0, 0, 0, minSlots + 2},
		{minSlots, prompt, 0, 0, 0, minSlots},
		{minSlots + 2, prompt, 0, backlog, 0, minSlots + 2},
		{minSlots + 2, prompt, 0, backlog + 1, 0, minSlots + 3},
		{maxSlots, prompt, 0, backlog + 1, 0, maxSlots},
		{slowSlots, slow - 1, 0, 10, 0, minSlots},
		{minSlots, slow - 1, 0, 10, 0, minSlots},
	} {
		s := slots{total: test.total}
		if s.adapt(test.elapsed, test.calls, test.waiting, test.held); s.total != test.want {
			t.Errorf("%+v: %d slots", test, s.total)
		}
	}
}

// TestLoad: a batch that is lost is no load, and one that takes longer than by a near server holds its slot.
func TestLoad(t *testing.T) {
	q, now := New(byWorkers(echo)), time.Unix(0, 0)
	calls := make([]*testCall, 16)
	q.waiting = calls[:3]
	q.inFlight = []*batch[int64, int64]{
		{calls: calls, sentAt: now.Add(-nearReply), lost: true},
		{calls: calls[:2], sentAt: now.Add(-nearReply)},
		{calls: calls[:4], sentAt: now.Add(1 - nearReply)},
	}
	if n, held := q.load(now); n != 9 || held != 1 {
		t.Errorf("%d calls and %d slots held, want 9 and 1", n, held)
	}
	last := &batch[int64, int64]{calls: calls[:busyCalls-9], sentAt: now}
	q.inFlight = append(q.inFlight, last)
	if q.end(last, now); q.slots.total != busySlots+1 {
		t.Errorf("%d slots after a batch that was at hand with the others, want %d", q.slots.total, busySlots+1)
	}
}

// TestTaken: slots are kept for workers on their way.
func TestTaken(t *testing.T) {
	s := slots{total: 2, used: 1, reserved: 1, max: 2}
	if !s.full() {
		t.Error("a slot is free, which is kept for a worker")
	}
	if s.reserved = 0; s.full() {
		t.Error("no slot is free, of which one is not used")
	}
}

// TestRoundTrip: the round trip is that of the newest batch with a reply. That patient callers give up says nothing
// about how long replies take, and nor does a reply that newer ones have overtaken.
func TestRoundTrip(t *testing.T) {
	const before, elapsed = time.Minute, time.Second
	newest := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		sent   time.Duration // after the newest
		inTime bool
		want   time.Duration
	}{
		"a newer batch":    {1, true, elapsed},
		"one at that time": {0, true, elapsed},
		"an overtaken one": {-1, true, before},
		"Serve gave up":    {1, false, before},
	} {
		q, b := New(byWorkers(echo)), &batch[int64, int64]{inTime: test.inTime, sentAt: newest.Add(test.sent)}
		q.slots.latest, q.slots.roundTrip = newest, before
		q.inFlight = append(q.inFlight, b)
		if q.end(b, b.sentAt.Add(elapsed)); q.slots.roundTrip != test.want {
			t.Errorf("%s: the round trip is %v, want %v", name, q.slots.roundTrip, test.want)
		}
	}
}

// TestLostAt: a batch is lost after two round trips, but not before lostAfter; and not before lostAfter has passed
// since the last one, unless newer batches have been answered.
func TestLostAt(t *testing.T) {
	sent := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		roundTrip, lastLost, newest time.Duration // the times are after the batch was sent
		want                        time.Duration
	}{
		"a short way":             {0, -time.Hour, -1, lostAfter},
		"a long way":              {lostAfter, -time.Hour, -1, 2 * lostAfter},
		"one was lost just now":   {0, 1, -1, lostAfter + 1},
		"the newest itself":       {0, 1, 0, lostAfter + 1},
		"newer ones are answered": {0, 1, 1, lostAfter},
		"a longer way than that":  {lostAfter, 1, -1, 2 * lostAfter},
	} {
		s := slots{roundTrip: test.roundTrip, lastLost: sent.Add(test.lastLost), latest: sent.Add(test.newest)}
		if got := s.lostAt(sent).Sub(sent); got != test.want {
			t.Errorf("%s: lost after %v, want %v", name, got, test.want)
		}
	}
}

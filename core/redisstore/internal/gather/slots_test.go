package gather

import (
	"testing"
	"time"
)

// TestAdapt: how many slots there are after a reply.
func TestAdapt(t *testing.T) {
	const near, prompt, slow = nearReply - 1, nearReply, promptReply
	for _, test := range []struct {
		total                int
		took                 time.Duration
		calls, waiting, held int
		want                 int
	}{
		{minSlots, near, busyCalls, 5, 0, busySlots},
		{minSlots, near, busyCalls - 1, 5, 0, minSlots},
		{minSlots, prompt, busyCalls, 5, 0, minSlots},
		{busySlots, near, busyCalls, 0, 1, busySlots + 1},
		{minSlots, near, busyCalls, 0, 9, minSlots},
		{minSlots + 2, near, busyCalls, 0, 9, minSlots + 2},
		{minSlots + 2, slow, 0, crowd + 1, 0, minSlots + 1},
		{fewestSlots, slow, 0, 0, 0, fewestSlots},
		{busySlots, prompt, 0, 0, 0, busySlots + 1},
		{minSlots + 3, prompt, 0, 0, 0, minSlots + 2},
		{minSlots, prompt, 0, 0, 0, minSlots},
		{minSlots + 2, prompt, 0, crowd, 0, minSlots + 2},
		{minSlots + 2, prompt, 0, crowd + 1, 0, minSlots + 3},
		{maxSlots, prompt, 0, crowd + 1, 0, maxSlots},
	} {
		s := slots{total: test.total}
		if s.adapt(test.took, test.calls, test.waiting, test.held); s.total != test.want {
			t.Errorf("%+v: %d slots", test, s.total)
		}
	}
}

// TestLoad: a batch that is lost is no load, and one that takes longer than by a near server holds its slot.
func TestLoad(t *testing.T) {
	q, now := New(byWorkers(echo)), time.Unix(0, 0)
	calls := make([]*testCall, 16)
	q.waiting = calls[:3]
	q.underWay = []*batch[int64, int64]{
		{calls: calls, sentAt: now.Add(-nearReply), lost: true},
		{calls: calls[:2], sentAt: now.Add(-nearReply)},
		{calls: calls[:4], sentAt: now.Add(1 - nearReply)},
	}
	if n, held := q.load(now); n != 9 || held != 1 {
		t.Errorf("%d calls and %d slots held, want 9 and 1", n, held)
	}
	last := &batch[int64, int64]{calls: calls[:busyCalls-9], sentAt: now}
	q.underWay = append(q.underWay, last)
	if q.end(last, now); q.slots.total != busySlots+1 {
		t.Errorf("%d slots after a batch that was at hand with the others, want %d", q.slots.total, busySlots+1)
	}
}

// TestTaken: slots are kept for workers on their way, and a batch is lost after two round trips.
func TestTaken(t *testing.T) {
	s := slots{total: 2, used: 1, coming: 1, roundTrip: lostAfter}
	if !s.taken() {
		t.Error("a slot is free, which is kept for a worker")
	}
	if sent := time.Unix(1, 0); !s.lostAt(sent).Equal(sent.Add(2 * lostAfter)) {
		t.Errorf("lost at %v, want two round trips after %v", s.lostAt(sent), sent)
	}
}

package core

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestForecastOrder: of the answers of a round, the one that the store gave last counts,
// whichever comes first.
func TestForecastOrder(t *testing.T) {
	now := time.Now()
	admitted := func(at, remaining int64) Decision {
		return Decision{Allowed: true, Remaining: remaining, At: time.UnixMicro(at), ResetAfter: time.Second, Source: Counted}
	}
	refused := Decision{At: time.UnixMicro(3), RetryAfter: time.Second, Source: Counted}
	for _, c := range []struct {
		answers []Decision
		room    int64
	}{
		{[]Decision{admitted(1, 5), admitted(2, 4)}, 4},
		{[]Decision{admitted(2, 4), admitted(1, 5)}, 4},
		{[]Decision{admitted(2, 5), admitted(2, 4)}, 4}, // of one script
		{[]Decision{admitted(2, 4), admitted(2, 5)}, 4},
		{[]Decision{refused, admitted(2, 3)}, 0},
		{[]Decision{admitted(2, 3), refused}, 0},
		{[]Decision{refused, admitted(3, 0)}, 0},
	} {
		f := forecast{room: 9}
		f.startRound()
		for _, d := range c.answers {
			f.learn(&d, 1, now)
		}
		if f.endRound(); f.room != c.room {
			t.Errorf("%+v: room for %d, want %d", c.answers, f.room, c.room)
		}
	}
}

// TestQueueOrder: waiters that are refused in one round are back in the order in which they
// came, whichever answer is first.
func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s waitQueues
		waiters := make([]*waiter, 5)
		var q *waitQueue
		for i := range waiters {
			waiters[i] = &waiter{cost: 1, wake: make(chan struct{}, 1)}
			q = s.join("k", waiters[i], nil)
		}
		if ask, _, _ := s.turn(q, waiters[0]); !ask {
			t.Fatal("the first does not ask")
		}
		if ask, _, _ := s.turn(q, waiters[1]); ask {
			t.Fatal("the second asks before the first has its answer")
		}
		s.answered(q, waiters[0], &Decision{Allowed: true, Remaining: 3, At: time.Now(), Source: Counted})
		for _, w := range waiters[1:4] {
			if ask, _, _ := s.turn(q, w); !ask {
				t.Fatal("a waiter for which there is room does not ask")
			}
		}
		for _, i := range []int{2, 3, 1} {
			s.answered(q, waiters[i], &Decision{RetryAfter: time.Second, At: time.Now(), Source: Counted})
		}
		var tickets []uint64
		for e := q.waiting.Front(); e != nil; e = e.Next() {
			tickets = append(tickets, e.Value.(*waiter).ticket)
		}
		if !slices.Equal(tickets, []uint64{2, 3, 4, 5}) {
			t.Errorf("the queue is %v", tickets)
		}
		for _, w := range waiters[1:] {
			s.leave(q, w)
		}
		if len(s.byKey) != 0 || q.costs != 0 || q.limited != 0 || q.asking != 0 {
			t.Errorf("left behind: %+v", q)
		}
	})
}

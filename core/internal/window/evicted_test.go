//go:build !race && !short

package window

import (
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestEvictedWords: what is counted in an EvictedCount, and a request, need a ring or none.
func TestEvictedWords(t *testing.T) {
	some := EvictedCount{Older: 1}
	for _, c := range []struct {
		past EvictedCount
		kind core.Algorithm
		cost int64
		want int
	}{
		{EvictedCount{}, core.SlidingLog, 1, 0},
		{EvictedCount{}, core.SlidingLog, 2, 11}, {some, core.SlidingLog, 1, 11}, // five pairs and a word
		{EvictedCount{}, core.CoarseLog, 2, 0}, {some, core.CoarseLog, 1, 61},
		{EvictedCount{}, core.SlidingCounter, 2, 0}, {some, core.SlidingCounter, 2, 0}, {some, core.Bucket, 2, 0},
	} {
		if got := c.past.Words(c.kind, c.cost); got != c.want {
			t.Errorf("%+v of a %v, cost %d: %d words, want %d", c.past, c.kind, c.cost, got, c.want)
		}
	}
}

// TestEvictedDecide: units of an epoch count until they leave if they were counted at its end.
func TestEvictedDecide(t *testing.T) {
	const w, now = 1000, 5_000_600 // the epoch before ended at 4_999_999, or at 3_999_999 where epochs are of two windows
	log, counter := Limit{N: 10, W: w}, Limit{N: 10, W: w, Algorithm: core.SlidingCounter}
	slots := Limit{N: 10, W: 900, Algorithm: core.CoarseLog} // of 15; epochs of 1003 end at 4_999_954 and at 5_000_957
	for name, c := range map[string]struct {
		bound Bound
		past  EvictedCount
		cost  int64
		want  Verdict
	}{
		"nothing":           {Bound{log, w}, EvictedCount{}, 1, Verdict{true, 9, w, 0}},
		"older":             {Bound{log, w}, EvictedCount{Older: 2}, 1, Verdict{true, 7, 399, 0}},
		"newer":             {Bound{log, w}, EvictedCount{Newer: 2}, 1, Verdict{true, 7, 1399, 0}},
		"older leave first": {Bound{log, w}, EvictedCount{Older: 3, Newer: 7}, 3, Verdict{false, 0, 399, 399}},
		"newer must leave":  {Bound{log, w}, EvictedCount{Older: 3, Newer: 7}, 4, Verdict{false, 0, 399, 1399}},
		"one must leave":    {Bound{log, w}, EvictedCount{Older: 2, Newer: 6}, 3, Verdict{false, 2, 399, 399}},
		"one older":         {Bound{log, w}, EvictedCount{Older: 1}, 1, Verdict{true, 8, 399, 0}},
		"no slots":          {Bound{slots, 1003}, EvictedCount{}, 1, Verdict{true, 9, 909, 0}},
		"an older slot":     {Bound{slots, 1003}, EvictedCount{Older: 1}, 1, Verdict{true, 8, 264, 0}},
		"a newer slot":      {Bound{slots, 1003}, EvictedCount{Newer: 10}, 1, Verdict{false, 0, 1269, 1269}},
		"an older counter":  {Bound{counter, w}, EvictedCount{Older: 4}, 1, Verdict{true, 8, 400, 0}},
		"a counter":         {Bound{counter, 2 * w}, EvictedCount{Newer: 2}, 1, Verdict{true, 7, 400, 0}},
		"above the limit":   {Bound{counter, 2 * w}, EvictedCount{Newer: 2}, 11, Verdict{false, 8, 400, Never}},
		"a full window":     {Bound{counter, w}, EvictedCount{Newer: 10}, 1, Verdict{false, 0, 400, 401}},
		"a full counter":    {Bound{counter, 2 * w}, EvictedCount{Newer: 10}, 1, Verdict{false, 0, 400, 2400}},
	} {
		if got := c.past.Decide(&c.bound, now, c.cost); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestEvictedLeaves: older units count until they are a window old, if they were counted at the end of their epoch.
func TestEvictedLeaves(t *testing.T) {
	for kind, leave := range map[core.Algorithm]int64{
		core.SlidingLog: 4_999_999 + 1000, core.CoarseLog: 5_000_005 + 1000, // slots of 17
	} {
		b := &Bound{Limit{N: 10, W: 1000, Algorithm: kind}, 2000}
		for now, want := range map[int64]int64{leave - 1: 7, leave: 9} {
			if got := (EvictedCount{Older: 2}).Decide(b, now, 1).Remaining; got != want {
				t.Errorf("%v: %d remain at %d, want %d", kind, got, now, want)
			}
			var c Count
			if c.Restore(b, EvictedCount{Older: 2}, leave-500); c.IsEmpty(b.Limit, now) != (now == leave) {
				t.Errorf("%v: restored, and spent at %d: %v", kind, now, now != leave)
			}
		}
	}
}

// TestEpoch: it is as long as a unit counts at most.
func TestEpoch(t *testing.T) {
	for kind, want := range map[core.Algorithm]int64{
		core.SlidingLog: 6000, core.SlidingCounter: 6000, core.CoarseLog: 6100, core.Bucket: 6001,
	} {
		if got := (Limit{N: 1, W: 6000, Algorithm: kind}).Epoch(); got != want {
			t.Errorf("%v: %d, want %d", kind, got, want)
		}
	}
}

// TestEvictedIsLate: the RetryAfter of an EvictedCount is not too short, and too long by a window at most: of a
// CoarseLog by sixty slots, whose length is rounded up. So none waits longer than two windows and a slot.
func TestEvictedIsLate(t *testing.T) {
	for kind, most := range map[core.Algorithm]int64{
		core.SlidingLog: 9990, core.CoarseLog: 60 * 167, core.SlidingCounter: 0, core.Bucket: 9990,
	} {
		l := Limit{N: 10, W: 9990, Algorithm: kind}
		b := &Bound{l, l.Epoch()}
		var late, longest int64
		for at := b.End(5000) + 1; at < b.End(5170); at += 61 {
			for now := at; now < at+l.Epoch(); now += 173 {
				var c Count
				c.Add(l, at, l.N)
				var p EvictedCount
				p.Add(b, at, l.N)
				if b.EpochAt(now) > b.EpochAt(at) {
					p = EvictedCount{Older: p.Newer}
				}
				want, got := c.Decide(l, now, now, l.N), p.Decide(b, now, l.N)
				if got.RetryAfter < want.RetryAfter || !want.Admitted && got.ResetAfter < want.ResetAfter {
					t.Fatalf("%v: counted at %d, at %d: %+v, want %+v or later", kind, at, now, got, want)
				}
				late = max(late, got.RetryAfter-want.RetryAfter)
				longest = max(longest, got.RetryAfter, got.ResetAfter)
			}
		}
		if late > most || longest > 2*l.W+l.Slot()+60*167-l.W {
			t.Errorf("%v: late by up to %d, and up to %d are told, want at most %d and two windows and a slot",
				kind, late, longest, most)
		}
	}
}

// TestRestoredCounter: the window before weighs to its end, also where an epoch is a window long.
func TestRestoredCounter(t *testing.T) {
	b := &Bound{Limit{N: maxCount, W: 1000, Algorithm: core.SlidingCounter}, 1000}
	var c Count
	c.Restore(b, EvictedCount{Older: 5000}, 5_000_999)
	if got := c.Units(b.Limit, 5_000_999); got != 5 {
		t.Errorf("%d units count in the last microsecond, want 5", got)
	}
}

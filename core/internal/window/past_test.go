package window

import "testing"

// TestPastWords: what is counted in a Past, and a request, need a ring or none.
func TestPastWords(t *testing.T) {
	some := Past{Older: 1}
	for _, c := range []struct {
		past Past
		kind Kind
		cost int64
		want int
	}{
		{Past{}, SlidingLog, 1, 0}, {Past{}, SlidingLog, 2, words(2, true)}, {some, SlidingLog, 1, words(2, true)},
		{Past{}, CoarseLog, 2, 0}, {some, CoarseLog, 1, Slots + 1},
		{Past{}, SlidingCounter, 2, 0}, {some, SlidingCounter, 2, 0},
	} {
		if got := c.past.Words(c.kind, c.cost); got != c.want {
			t.Errorf("%+v of a %v, cost %d: %d words, want %d", c.past, c.kind, c.cost, got, c.want)
		}
	}
}

// TestPastDecide: units of an epoch count until they leave if they were counted at its end.
func TestPastDecide(t *testing.T) {
	const w, now = 1000, 5_000_600 // the epoch before ended at 4_999_999, or at 3_999_999 where epochs are of two windows
	log, counter := Limit{N: 10, W: w}, Limit{N: 10, W: w, Kind: SlidingCounter}
	for name, c := range map[string]struct {
		bound Bound
		past  Past
		cost  int64
		want  Verdict
	}{
		"nothing":           {Bound{log, w}, Past{}, 1, Verdict{true, 9, w, 0}},
		"older":             {Bound{log, w}, Past{Older: 2}, 1, Verdict{true, 7, 399, 0}},
		"newer":             {Bound{log, w}, Past{Newer: 2}, 1, Verdict{true, 7, 1399, 0}},
		"older leave first": {Bound{log, w}, Past{Older: 3, Newer: 7}, 3, Verdict{false, 0, 399, 399}},
		"newer must leave":  {Bound{log, w}, Past{Older: 3, Newer: 7}, 4, Verdict{false, 0, 399, 1399}},
		"a counter":         {Bound{counter, 2 * w}, Past{Newer: 2}, 1, Verdict{true, 7, 400, 0}},
		"above the limit":   {Bound{counter, 2 * w}, Past{Newer: 2}, 11, Verdict{false, 8, 400, Never}},
		"a full counter":    {Bound{counter, 2 * w}, Past{Newer: 10}, 1, Verdict{false, 0, 400, 2400}},
	} {
		if got := c.past.Decide(&c.bound, now, c.cost); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestRestoredCounter: the window before weighs to its end, also where an epoch is a window long.
func TestRestoredCounter(t *testing.T) {
	b := &Bound{Limit{N: maxCount, W: 1000, Kind: SlidingCounter}, 1000}
	var c Count
	c.Restore(b, Past{Older: 5000}, 5_000_999)
	if got := c.Units(b.Limit, 5_000_999); got != 5 {
		t.Errorf("%d units count in the last microsecond, want 5", got)
	}
}

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
	const w, now = 1000, 5_000_600 // the epoch before ended at 4_999_999
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
		"the last moment":   {Bound{Limit{N: 10, W: 602}, 2 * w}, EvictedCount{Older: 2}, 1, Verdict{true, 7, 1, 0}},
		"a window old":      {Bound{Limit{N: 10, W: 601}, 2 * w}, EvictedCount{Older: 2}, 1, Verdict{true, 9, 601, 0}},
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

package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatchDeadlines: a batch lasts as long as the most patient caller waits, and the server is judged by the least
// patient one, but not before MinWait.
func TestBatchDeadlines(t *testing.T) {
	const least, most, ms = 100 * time.Millisecond, 300 * time.Millisecond, time.Millisecond
	for name, test := range map[string]struct {
		timeouts   []time.Duration // of callers; 0: none
		inline     bool
		judge, end time.Duration // 0: never
	}{
		"the most patient":     {timeouts: []time.Duration{least, most, 2 * least}, judge: least, end: most},
		"all alike":            {timeouts: []time.Duration{most, most}, judge: most, end: most},
		"one in a hurry":       {timeouts: []time.Duration{most, ms, 2 * least}, judge: least, end: most},
		"all in a hurry":       {timeouts: []time.Duration{ms, 2 * ms}, judge: least, end: least},
		"inline":               {timeouts: []time.Duration{90 * ms}, inline: true, judge: 90 * ms, end: 90 * ms},
		"one without deadline": {timeouts: []time.Duration{most, 0, 2 * least}, judge: 2 * least},
		"none has a deadline":  {timeouts: []time.Duration{0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			at := func(after time.Duration) (at time.Time) {
				if after > 0 {
					at = start.Add(after)
				}
				return at
			}
			var batch []*testCall
			for i, timeout := range test.timeouts {
				c := &testCall{Context: t.Context(), inline: test.inline}
				if i%2 == 0 {
					c.Deadline = at(timeout)
				} else if timeout > 0 { // the deadline of the context counts as well
					var cancel context.CancelFunc
					c.Context, cancel = context.WithTimeout(t.Context(), timeout)
					defer cancel()
				}
				batch = append(batch, c)
			}
			judge, end := New(byWorkers(echo)).Deadline(batch)
			if !judge.Equal(at(test.judge)) || !end.Equal(at(test.end)) {
				t.Errorf("%s: judged at %v and ended at %v, from %v; want %+v", name, judge, end, start, test)
			}
		})
	}
}

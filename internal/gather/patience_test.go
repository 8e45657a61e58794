package gather

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: a batch's context lasts as long as the most patient caller waits, and the server is judged by the least
// patient one.
func TestPatience(t *testing.T) {
	const least, most, ms = 100 * time.Millisecond, 300 * time.Millisecond, time.Millisecond
	for name, test := range map[string]struct {
		timeouts []time.Duration // of callers; 0: none
		inline   bool
		judged   time.Duration // 0: never
		over     time.Duration // 0: never
	}{
		"the most patient":     {timeouts: []time.Duration{least, most, 2 * least}, judged: least, over: most},
		"all alike":            {timeouts: []time.Duration{most, most}, judged: most, over: most},
		"one in a hurry":       {timeouts: []time.Duration{most, ms, 2 * least}, judged: least, over: most},
		"all in a hurry":       {timeouts: []time.Duration{ms, 2 * ms}, judged: least, over: least},
		"inline":               {timeouts: []time.Duration{90 * ms}, inline: true, judged: 90 * ms, over: 90 * ms},
		"one without deadline": {timeouts: []time.Duration{most, 0, 2 * least}, judged: 2 * least},
		"none has a deadline":  {timeouts: []time.Duration{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				first, leave := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
				var batch []*testCall
				for i, timeout := range test.timeouts {
					c := &testCall{Context: first, inline: test.inline}
					if i%2 == 0 && timeout > 0 {
						c.Deadline = time.Now().Add(timeout)
					} else if timeout > 0 { // the deadline of the context counts as well
						var cancel context.CancelFunc
						c.Context, cancel = context.WithTimeout(first, timeout)
						defer cancel()
					}
					batch = append(batch, c)
				}
				q := New(byWorkers(echo))
				start := time.Now()
				var judged time.Duration
				p := q.Patience(batch, func() {
					if judged > 0 {
						t.Error("judged twice")
					}
					judged = time.Since(start)
				})
				leave()
				if p.Err() != nil || p.Value(key{}) != "value" || p.Passed() {
					t.Errorf("after the first caller left: %v, value %v, passed %v", p.Err(), p.Value(key{}), p.Passed())
				}
				own, cancel := context.WithCancel(p) // as clients derive them
				defer cancel()
				end, ends := p.Deadline()
				if ends != (test.over > 0) || ends && end.Sub(start) != test.over {
					t.Errorf("the deadline is %v, %v after the start; want %v", ends, end.Sub(start), test.over)
				}
				if ends {
					time.Sleep(test.over - 1)
					if p.Passed() || own.Err() != nil {
						t.Errorf("just before the deadline: passed %v, %v", p.Passed(), own.Err())
					}
					if time.Sleep(time.Nanosecond); !p.Passed() {
						t.Error("the deadline has come and has not passed")
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if judged != test.judged {
					t.Errorf("judged after %v, want %v", judged, test.judged)
				}
				if test.over > 0 {
					if !errors.Is(p.Err(), errLate) || !errors.Is(context.Cause(p), errLate) || own.Err() == nil || !p.Passed() {
						t.Errorf("ended with %v because of %v, own %v, passed %v", p.Err(), context.Cause(p), own.Err(), p.Passed())
					}
				} else if p.Err() != nil || own.Err() != nil || p.Passed() {
					t.Errorf("without a deadline: %v, own %v, passed %v", p.Err(), own.Err(), p.Passed())
				}
				if inTime := p.Stop(); inTime != (test.over == 0) || p.Judged() != (test.judged > 0) {
					t.Errorf("stopped in time: %v, judged: %v", inTime, p.Judged())
				}
			})
		})
	}
}

// TestPatienceStops: a batch that is served in time does not speak against the server. One that is served after the
// least patient caller's deadline does, and is in time for the others.
func TestPatienceStops(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(echo))
		for after, judged := range map[time.Duration]bool{99 * ms: false, 150 * ms: true} {
			now, calls := time.Now(), 0
			batch := []*testCall{
				{Context: context.Background(), Deadline: now.Add(ms)},
				{Context: context.Background(), Deadline: now.Add(200 * ms)},
			}
			p := q.Patience(batch, func() { calls++ })
			time.Sleep(after)
			if !p.Stop() || p.Judged() != judged {
				t.Errorf("after %v: judged %v, want %v", after, p.Judged(), judged)
			}
			if p.timer.Stop() {
				t.Errorf("after %v: the timer runs on", after)
			}
			p.fire() // as if the timer had fired just when Stop was called
			time.Sleep(time.Hour)
			synctest.Wait()
			if p.Err() != nil || (calls > 0) != judged {
				t.Errorf("after %v, stopped: %v, late was called %d times", after, p.Err(), calls)
			}
		}
	})
}

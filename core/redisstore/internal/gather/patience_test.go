package gather

import (
	"context"
	"errors"
	"slices"
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
				judgements := 0
				p := q.Patience(batch, func(err error) {
					judgements++
					if judged = time.Since(start); !errors.Is(err, errLate) {
						judged = 0
					}
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
				if inTime := p.Stop(nil); inTime != (test.over == 0) || judgements != 1 {
					t.Errorf("stopped in time: %v, judged %d times", inTime, judgements)
				}
			})
		})
	}
}

// TestPatienceStops: the server is judged once. A batch that is served in time is judged by its outcome. One that is
// served after the least patient caller's deadline speaks against the server, and is in time for the others.
func TestPatienceStops(t *testing.T) {
	const ms = time.Millisecond
	outcome := errors.New("outcome")
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(echo))
		for after, want := range map[time.Duration]error{99 * ms: outcome, 150 * ms: errLate} {
			now, judgements := time.Now(), []error{}
			batch := []*testCall{
				{Context: context.Background(), Deadline: now.Add(ms)},
				{Context: context.Background(), Deadline: now.Add(200 * ms)},
			}
			p := q.Patience(batch, func(err error) { judgements = append(judgements, err) })
			time.Sleep(after)
			if !p.Stop(outcome) {
				t.Errorf("after %v: not in time", after)
			}
			if p.timer.Stop() {
				t.Errorf("after %v: the timer runs on", after)
			}
			p.fire() // as if the timer had fired just when Stop was called
			time.Sleep(time.Hour)
			synctest.Wait()
			if !slices.Equal(judgements, []error{want}) {
				t.Errorf("after %v: judged by %v, want %v", after, judgements, want)
			}
		}
	})
}

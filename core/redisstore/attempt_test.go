package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// begun returns a call to the server of a breaker, which is judged and ends after these times; 0 is never.
func begun(t *testing.T, ctx context.Context, b *breaker, judged, ends time.Duration) *attempt {
	t.Helper()
	at := func(after time.Duration) (at time.Time) {
		if after > 0 {
			at = time.Now().Add(after)
		}
		return at
	}
	a, err := idle().attempt(ctx, b, at(judged), at(ends))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAttempt: a call lasts until its deadline, though its caller leaves, and the server is judged before.
func TestAttempt(t *testing.T) {
	const judged, ends = 100 * time.Millisecond, 300 * time.Millisecond
	for name, want := range map[string]struct{ judged, ends time.Duration }{
		"judged before its end": {judged, ends}, "judged at its end": {judged, judged},
		"endless": {judged, 0}, "not judged": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				ctx, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				b := newBreaker("")
				a := begun(t, ctx, b, want.judged, want.ends)
				own, cancel := context.WithCancel(a) // as clients derive them
				defer cancel()
				leave()
				if want.judged > 0 {
					time.Sleep(want.judged - 1)
				}
				if n := b.Counts().TotalFailures; n != 0 || own.Err() != nil || a.Value(key{}) != "value" {
					t.Errorf("after the caller left: %d failures, %v, value %v", n, own.Err(), a.Value(key{}))
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if n := b.Counts().TotalFailures; (n == 1) != (want.judged > 0) || (a.Err() != nil) != (want.ends == judged) {
					t.Errorf("when the server is judged: %d failures, %v", n, a.Err())
				}
				if want.ends > judged {
					time.Sleep(want.ends - judged - 1)
					if own.Err() != nil {
						t.Errorf("just before the deadline: %v", own.Err())
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if ended := errors.Is(context.Cause(a), errLate) && own.Err() != nil; ended != (want.ends > 0) {
					t.Errorf("ended with %v, own %v", context.Cause(a), own.Err())
				}
				if inTime := a.end(nil); inTime != (want.ends == 0) {
					t.Errorf("in time: %v", inTime)
				}
				if n := b.Counts(); n.TotalFailures+n.TotalSuccesses != 1 {
					t.Errorf("told %+v, want one outcome", n)
				}
			})
		})
	}
}

// TestAttemptEnds: the server is judged once. A call that ends in time is judged by its outcome. One that ends after
// the server was judged speaks against the server, and is in time for patient callers.
func TestAttemptEnds(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		for after, failures := range map[time.Duration]uint32{99 * ms: 0, 150 * ms: 1} {
			b := newBreaker("")
			a := begun(t, t.Context(), b, 100*ms, 200*ms)
			time.Sleep(after)
			if !a.end(nil) {
				t.Errorf("after %v: not in time", after)
			}
			if a.timer.Stop() {
				t.Errorf("after %v: the timer runs on", after)
			}
			a.fire() // as if the timer had fired just when the call ended
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := b.Counts(); n.TotalFailures != failures || n.TotalSuccesses != 1-failures {
				t.Errorf("after %v: told %+v, want %d failures of one", after, n, failures)
			}
		}
	})
}

// TestLateOr: an error of the connection means that it is late once the deadline
// has passed, and a reply never does.
func TestLateOr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := begun(t, t.Context(), newBreaker(""), core.DefaultTimeout, core.DefaultTimeout)
		defer own.end(nil)
		refused, reply := error(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), error(replyError("ERR"))
		for _, passed := range []bool{false, true} {
			want := refused
			if passed {
				time.Sleep(core.DefaultTimeout)
				want = errLate
			}
			if got := own.lateOr(refused); got != want {
				t.Errorf("passed: %v: an error of the connection is %v, want %v", passed, got, want)
			}
			for _, err := range []error{nil, reply} {
				if got := own.lateOr(err); got != err {
					t.Errorf("passed: %v: %v is %v", passed, err, got)
				}
			}
		}
	})
}

// TestLeftBeforeItsTurn: a request whose caller leaves while it waits for its turn is not sent later.
func TestLeftBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := &client{calls: make(chan struct{}, 1)}, newBreaker("")
		c.calls <- struct{}{} // another call is under way
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		sent := false
		_, err := c.guarded(ctx, time.Now().Add(time.Second), b, target{}, func(context.Context) (string, error) {
			sent = true
			return "", nil
		})
		if stage := core.StageOf(err); stage != core.StageQueued {
			t.Errorf("%v at the stage %q, want %q", err, stage, core.StageQueued)
		}
		<-c.calls // its turn
		synctest.Wait()
		if n := b.Counts(); sent || n.TotalFailures+n.TotalSuccesses > 0 {
			t.Errorf("sent: %v, told %+v; want neither", sent, n)
		}
	})
}

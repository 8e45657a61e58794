package server

import (
	"context"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// newTestAttempt returns a call that is judged and ends after these times; 0 is never.
func newTestAttempt(t *testing.T, ctx context.Context, judged, ends time.Duration) *attempt {
	t.Helper()
	at := func(after time.Duration) (at time.Time) {
		if after > 0 {
			at = time.Now().Add(after)
		}
		return at
	}
	_, c := newScripted(t)
	return c.newAttempt(ctx, c.Default.breaker, 0, at(judged), at(ends))
}

// TestAttempt: a call lasts until its deadline, though its caller leaves, and the server is judged before, once.
func TestAttempt(t *testing.T) {
	const judged, ends = 100 * time.Millisecond, 300 * time.Millisecond
	for name, want := range map[string]struct{ judged, ends time.Duration }{
		"judged before its end": {judged, ends}, "judged at its end": {judged, judged},
		"no end": {judged, 0}, "not judged": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				ctx, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				a := newTestAttempt(t, ctx, want.judged, want.ends)
				b := a.breaker
				leave()
				if want.judged > 0 {
					time.Sleep(want.judged - 1)
				}
				if b.counted() != 0 || a.Err() != nil || a.Value(key{}) != "value" {
					t.Errorf("after the caller left: %d failures, %v, value %v", b.counted(), a.Err(), a.Value(key{}))
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if (b.counted() == 1) != (want.judged > 0) || (a.Err() != nil) != (want.ends == judged) {
					t.Errorf("when the server is judged: %d failures, %v", b.counted(), a.Err())
				}
				if want.ends > judged {
					time.Sleep(want.ends - judged - 1)
					if a.Err() != nil {
						t.Errorf("just before the deadline: %v", a.Err())
					}
				}
				time.Sleep(time.Hour)
				isDone := false
				select {
				case <-a.Done():
					isDone = true
				default:
				}
				if isDone != (want.ends > 0) || (a.Err() != nil) != isDone {
					t.Errorf("done: %v, %v", isDone, a.Err())
				}
				a.report(ErrLate)
				if inTime := a.end(); inTime != (want.ends == 0) || b.counted() != 1 {
					t.Errorf("in time: %v, %d failures, want one", inTime, b.counted())
				}
			})
		})
	}
}

// TestHint: an error of the connection means that it is late once the deadline has passed, and a reply never does.
func TestHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAttempt(t, t.Context(), core.DefaultTimeout, core.DefaultTimeout)
		defer a.end()
		refused, reply := error(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), error(replyError("ERR"))
		for _, passed := range []bool{false, true} {
			want := refused
			if passed {
				time.Sleep(core.DefaultTimeout)
				want = ErrLate
			}
			if got := a.hint(refused); got != want {
				t.Errorf("passed: %v: an error of the connection is %v, want %v", passed, got, want)
			}
			for _, err := range []error{reply} {
				if got := a.hint(err); got != err {
					t.Errorf("passed: %v: %v is %v", passed, err, got)
				}
			}
		}
	})
}

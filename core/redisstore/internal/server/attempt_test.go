package server

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
)

// begun returns a call to the server of a breaker, which is judged and ends after these times; 0 is never.
func begun(t *testing.T, ctx context.Context, b *Server, judged, ends time.Duration) *Attempt {
	t.Helper()
	at := func(after time.Duration) (at time.Time) {
		if after > 0 {
			at = time.Now().Add(after)
		}
		return at
	}
	a, err := idle().Begin(ctx, b, at(judged), at(ends))
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
				b := newServer("")
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
				if ended := errors.Is(context.Cause(a), ErrLate) && own.Err() != nil; ended != (want.ends > 0) {
					t.Errorf("ended with %v, own %v", context.Cause(a), own.Err())
				}
				if inTime := a.End(nil); inTime != (want.ends == 0) {
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
			b := newServer("")
			a := begun(t, t.Context(), b, 100*ms, 200*ms)
			time.Sleep(after)
			if !a.End(nil) {
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
		own := begun(t, t.Context(), newServer(""), core.DefaultTimeout, core.DefaultTimeout)
		defer own.End(nil)
		refused, reply := error(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), error(replyError("ERR"))
		for _, passed := range []bool{false, true} {
			want := refused
			if passed {
				time.Sleep(core.DefaultTimeout)
				want = ErrLate
			}
			if got := own.LateOr(refused); got != want {
				t.Errorf("passed: %v: an error of the connection is %v, want %v", passed, got, want)
			}
			for _, err := range []error{nil, reply} {
				if got := own.LateOr(err); got != err {
					t.Errorf("passed: %v: %v is %v", passed, err, got)
				}
			}
		}
	})
}

// TestLeftBeforeItsTurn: a request whose caller leaves while it waits for its turn is not sent later.
func TestLeftBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := &Client{calls: make(chan struct{}, 1)}, newServer("")
		c.calls <- struct{}{} // another call is under way
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		sent := false
		_, err := c.guarded(ctx, time.Now().Add(time.Second), b, Target{}, func(context.Context) (string, error) {
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

// idle returns a client that has nobody to send to.
func idle() *Client { return &Client{calls: make(chan struct{}, maxCalls)} }

// TestTrialOfTheHasty: a trial, whether the server is back, takes as long as it
// may, though the caller whose request is tried is in a hurry. The caller is told that
// the request may have been sent.
func TestTrialOfTheHasty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := opened(t)
		hasty, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, core.ErrTimeout)
		defer cancel()
		_, err := idle().guarded(hasty, time.Time{}, b, Target{}, func(ctx context.Context) (string, error) {
			select {
			case <-time.After(core.DefaultTimeout * 9 / 10):
				return "", nil
			case <-ctx.Done():
				return "", Ended(ctx)
			}
		})
		if !errors.Is(err, core.ErrUnavailable) || core.StageOf(err) != core.StageReply {
			t.Errorf("the caller is told %v, at the stage %v", err, core.StageOf(err))
		}
		time.Sleep(core.DefaultTimeout)
		if !b.Closed() {
			t.Error("the server was back, and the breaker is not closed")
		}
	})
}

// TestTrialWithoutDeadline: a trial of a silent server ends, though its caller has no deadline.
func TestTrialWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := opened(t)
		_, err := idle().guarded(t.Context(), time.Time{}, b, Target{}, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", Ended(ctx)
		})
		if !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("the caller is told %v", err)
		}
		time.Sleep(core.DefaultTimeout)
		synctest.Wait()
		if state := b.current.Load().State(); state != gobreaker.StateOpen {
			t.Errorf("%v after the trial", state)
		}
	})
}

// TestHastyCallers: callers that leave before the server is due neither speak
// for the server nor against it; the calls that they leave behind do.
func TestHastyCallers(t *testing.T) {
	for name, test := range map[string]struct {
		takes   time.Duration // until the server answers
		timeout time.Duration // of the limiter; 0: none
		open    bool
	}{
		"silent":             {time.Hour, core.DefaultTimeout, true},
		"slow":               {core.DefaultTimeout * 9 / 10, core.DefaultTimeout, false},
		"silent, no timeout": {time.Hour, 0, true},
		"slow, no timeout":   {core.DefaultTimeout * 9 / 10, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := newServer(""), idle()
				var deadline time.Time
				if test.timeout > 0 {
					deadline = time.Now().Add(test.timeout)
				}
				for range breakerFailures {
					own, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					_, err := c.guarded(own, deadline, b, Target{}, func(ctx context.Context) (string, error) {
						time.Sleep(test.takes) // go-redis may not heed ctx
						return "", nil
					})
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) || !isCallers(err) {
						t.Errorf("a caller is told %v", err)
					}
				}
				if !b.Closed() {
					t.Error("the breaker is open before the server is due")
				}
				time.Sleep(core.DefaultTimeout)
				synctest.Wait()
				if b.Closed() == test.open {
					t.Errorf("the breaker is open: %v, want %v", !test.open, test.open)
				}
				time.Sleep(time.Hour) // till the calls have ended
			})
		})
	}
}

package server

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
)

// fail lets so many calls fail that the breaker opens.
func (s *Server) fail(t *testing.T) {
	t.Helper()
	for range breakerFailures {
		tell, err := s.current.Load().Allow()
		if err != nil {
			t.Fatal(err)
		}
		tell(errors.New("no answer"))
	}
}

// TestBreakerStatus: the state, since when, and how often the breaker has opened. A
// trial that fails is no new outage.
func TestBreakerStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := time.Now()
		b := newServer("127.0.0.1:6379")
		want := Status{Server: "127.0.0.1:6379", State: gobreaker.StateClosed, Changed: made}
		check := func(what string) {
			t.Helper()
			if got := *b.status.Load(); got != want {
				t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
			}
			if b.Closed() != (want.State == gobreaker.StateClosed) {
				t.Errorf("%s: closed: %v", what, b.Closed())
			}
		}
		check("at first")
		time.Sleep(time.Second)
		b.fail(t)
		want.State, want.Changed, want.FailingSince, want.Trips = gobreaker.StateOpen, time.Now(), time.Now(), 1
		check("after failures")
		for _, outcome := range []error{errors.New("still no answer"), nil} {
			time.Sleep(time.Second)
			check("without requests")
			tell, err := b.current.Load().Allow()
			if err != nil {
				t.Fatal(err)
			}
			want.State, want.Changed = gobreaker.StateHalfOpen, time.Now()
			check("with a trial under way")
			time.Sleep(time.Second)
			tell(outcome)
			want.State, want.Changed = gobreaker.StateOpen, time.Now()
			if outcome == nil {
				want.State, want.FailingSince = gobreaker.StateClosed, time.Time{}
			}
			check(fmt.Sprint("after a trial that ended with ", outcome))
		}
		time.Sleep(time.Second)
		b.fail(t)
		want.State, want.Changed, want.FailingSince, want.Trips = gobreaker.StateOpen, time.Now(), time.Now(), 2
		check("after the next outage")
	})
}

// TestBreakerClosed: five failures in a row open a breaker, for a tenth of a second. Then one decision at a time is
// tried, and its success closes the breaker. The copy of the state follows the state.
func TestBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newServer("")
		tell := func(err error) {
			done, refused := b.current.Load().Allow()
			if refused != nil {
				t.Fatal(refused)
			}
			done(err)
		}
		check := func(when string, want gobreaker.State) {
			if state := b.current.Load().State(); state != want || b.Closed() != (want == gobreaker.StateClosed) {
				t.Errorf("%s: %v, closed: %v; want %v", when, state, b.Closed(), want)
			}
		}
		for _, failures := range []int{4, 5} { // in a row, beside a success
			tell(nil)
			check("after a success", gobreaker.StateClosed)
			for range failures - 1 {
				tell(ErrLate)
			}
			check("before the last failure", gobreaker.StateClosed)
			tell(ErrLate)
		}
		check("after five failures", gobreaker.StateOpen)
		time.Sleep(100 * time.Millisecond)
		check("within the pause", gobreaker.StateOpen)
		time.Sleep(time.Nanosecond)
		check("after the pause", gobreaker.StateHalfOpen)
		done, err := b.current.Load().Allow()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.current.Load().Allow(); err == nil {
			t.Error("two decisions are tried at a time")
		}
		done(nil)
		check("after the trial", gobreaker.StateClosed)
	})
}

// opened returns a breaker that lets a trial through.
func opened(t *testing.T) *Server {
	t.Helper()
	b := newServer("")
	for range breakerFailures {
		done, err := b.current.Load().Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(ErrLate)
	}
	time.Sleep(breakerPause + 1)
	return b
}

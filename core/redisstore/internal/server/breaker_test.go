package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
)

// call has a call end with an outcome, of which the breaker is told.
func (s *Server) call(t *testing.T, outcome error) {
	t.Helper()
	tell, err := s.current.Load().Allow()
	if err != nil {
		t.Fatal(err)
	}
	tell(outcome)
}

// Counts are the outcomes that the breaker has been told of in its state.
func (s *Server) Counts() gobreaker.Counts { return s.current.Load().Counts() }

// fail lets so many calls fail that the breaker opens.
func (s *Server) fail(t *testing.T) {
	t.Helper()
	for range breakerFailures {
		s.call(t, errors.New("no answer"))
	}
}

// TestBreakerClosed: five failures in a row open a breaker, for a tenth of a second. Then one decision at a time is
// tried, and its success closes the breaker. The copy of the state follows the state, and tells since when it is so and
// how often the breaker has opened; a trial that fails is no new outage.
func TestBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newServer("127.0.0.1:6379")
		want := Status{Server: "127.0.0.1:6379", State: gobreaker.StateClosed, Changed: time.Now()}
		check := func(when string, state gobreaker.State) {
			t.Helper()
			if state != want.State {
				want.State, want.Changed = state, time.Now()
			}
			if got := *b.status.Load(); got != want || b.Closed() != (state == gobreaker.StateClosed) {
				t.Errorf("%s: closed: %v\n got %+v\nwant %+v", when, b.Closed(), got, want)
			}
		}
		check("at first", gobreaker.StateClosed)
		time.Sleep(time.Second)
		for trips := range uint64(2) {
			for range 2 { // what is in a row
				b.call(t, nil)
				for range 4 {
					b.call(t, ErrLate)
				}
			}
			check("after four failures in a row", gobreaker.StateClosed)
			b.call(t, ErrLate)
			want.FailingSince, want.Trips = time.Now(), trips+1
			check("after five", gobreaker.StateOpen)
			for _, outcome := range []error{errors.New("still no answer"), nil} {
				time.Sleep(100 * time.Millisecond)
				if b.current.Load().State() != gobreaker.StateOpen {
					t.Error("the breaker is not open for all of the pause")
				}
				time.Sleep(time.Second)
				check("without requests", gobreaker.StateOpen)
				tell, err := b.current.Load().Allow()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.current.Load().Allow(); err == nil {
					t.Error("two decisions are tried at a time")
				}
				check("with a trial under way", gobreaker.StateHalfOpen)
				time.Sleep(time.Second)
				if tell(outcome); outcome != nil {
					check("after a trial that failed", gobreaker.StateOpen)
				}
			}
			want.FailingSince = time.Time{}
			check("after the trial", gobreaker.StateClosed)
			time.Sleep(time.Second)
		}
	})
}

// opened returns a breaker that lets a trial through.
func opened(t *testing.T) *Server {
	t.Helper()
	b := newServer("")
	b.fail(t)
	time.Sleep(breakerPause + 1)
	return b
}

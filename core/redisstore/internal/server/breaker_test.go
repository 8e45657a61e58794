package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestBreaker: five failures in a row open a breaker, for a tenth of a second. Then one request at a time is a probe:
// its success closes the breaker, and its failure is no new outage. Results of earlier states are ignored.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker("127.0.0.1:6379", maxFailures)
		want := Status{Server: "127.0.0.1:6379", State: Closed, Changed: time.Now()}
		check := func(when string, state string) {
			t.Helper()
			if state != want.State {
				want.State, want.Changed = state, time.Now()
			}
			if got := b.Status(); got != want || (b.openErr.Load() == nil) != (state == Closed) {
				t.Errorf("%s:\n got %+v\nwant %+v", when, got, want)
			}
		}
		report := func(err error) {
			t.Helper()
			generation, refusal := b.start()
			if refusal != nil {
				t.Fatal(refusal)
			}
			b.report(generation, err)
		}
		probe := func() uint64 {
			t.Helper()
			generation, ok := b.startProbe(time.Now())
			if !ok {
				t.Fatal("no probe")
			}
			if _, ok := b.startProbe(time.Now()); ok {
				t.Error("two probes at a time")
			}
			check("during a probe", HalfOpen)
			return generation
		}
		check("at first", Closed)
		for trips := range uint64(2) {
			for range 2 {
				report(nil)
				for range 4 {
					report(ErrLate)
				}
			}
			check("after four failures in a row", Closed)
			early, _ := b.start()
			report(ErrLate)
			want.FailingSince, want.TripCount = time.Now(), trips+1
			check("after five", Open)
			if _, err := b.start(); err == nil {
				t.Error("a call starts while the breaker is open")
			}
			time.Sleep(breakerPause - 1)
			if _, ok := b.startProbe(time.Now()); ok {
				t.Error("a probe before the pause has passed")
			}
			time.Sleep(time.Second)
			check("without requests", Open)
			failed := probe()
			b.report(early, nil)
			check("after an earlier call", HalfOpen)
			time.Sleep(time.Second)
			b.report(failed, errors.New("still no answer"))
			check("after a probe that failed", Open)
			time.Sleep(breakerPause)
			b.report(probe(), nil)
			want.FailingSince = time.Time{}
			check("after the probe", Closed)
			time.Sleep(time.Second)
		}
	})
}

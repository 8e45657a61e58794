package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// crowd starts requests that must all be admitted.
func (s *fixture) crowd(t *testing.T, group *sync.WaitGroup, n int) {
	for range n {
		group.Go(func() {
			if d := s.allow(t, 1); !d.Allowed || d.Err != nil {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestCallerLeaves: a caller that leaves while it renews a lease wastes nothing: the lease is there for the others,
// whether they wait for it or come later.
func TestCallerLeaves(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ ctx, timeout time.Duration }{{ms, core.DefaultTimeout}, {ms, 0}, {time.Hour, ms}} {
		for _, waits := range []bool{false, true} {
			inBubble(t, 1000, func(t *testing.T, s *fixture) {
				admitted := s.warmUp(t, 400)
				for range 10 {
					admitted += s.drain(t)
					s.delay = 10 * ms
					before, start := s.Scripts, time.Now()
					var group sync.WaitGroup
					if waits {
						group.Go(func() {
							synctest.Wait()
							s.crowd(t, &group, 1)
						})
						admitted++
					}
					ctx, cancel := context.WithTimeout(t.Context(), c.ctx)
					if err := s.take(ctx, c.timeout).Err; err == nil || time.Since(start) != ms {
						t.Errorf("%v after %v", err, time.Since(start))
					}
					cancel()
					group.Wait()
					time.Sleep(30 * ms)
					synctest.Wait()
					if s.Scripts != before+1 || s.unspent() < 10 {
						t.Errorf("%d scripts, %d units are left", s.Scripts-before, s.unspent())
					}
					s.delay = 100 * time.Microsecond
					admitted += s.warmUp(t, 20)
				}
				// A lease gives way to a larger one with less than a request of cost 1 left.
				wasted := -admitted - s.unspent()
				for _, charge := range s.Charges {
					wasted += charge.Units
				}
				if wasted != 0 {
					t.Errorf("%+v: of the units that were charged, %d are wasted", c, wasted)
				}
			})
		}
	}
}

// TestResetDuringRenewal: a reset discards the lease that was requested before it.
func TestResetDuringRenewal(t *testing.T) {
	inBubble(t, 1000, func(t *testing.T, s *fixture) {
		for s.unspent() < 10 {
			s.warmUp(t, 1)
		}
		s.drain(t)
		done := make(chan core.Decision)
		go func() { done <- s.allow(t, 1) }()
		synctest.Wait() // it waits for its lease
		if err := s.limiter.Reset(t.Context(), "client"); err != nil {
			t.Fatal(err)
		}
		if d := <-done; !d.Allowed || s.Charges[len(s.Charges)-1].Units < 2 || s.unspent() != 0 {
			t.Errorf("%+v, %d left", d, s.unspent())
		}
	})
}

// TestAnsweredWhileLeaving: a caller that leaves just when its renewal is over waits for its answer.
func TestAnsweredWhileLeaving(t *testing.T) {
	inBubble(t, 1000, func(t *testing.T, s *fixture) {
		_, shard := s.rule.holder("client")
		ctx, leave := context.WithCancel(t.Context())
		leave()
		for range 50 { // of two that are ready, select takes any
			r := &renewal{request: request{shard: shard}, lease: new(lease), done: make(chan struct{})}
			r.first.Allowed = true // by a request to the next ledger
			s.rule.finish(r, answer{})
			if d := s.rule.awaitOwn(ctx, &request{}, r); d.Err != nil || !d.Allowed {
				t.Fatalf("%+v", d)
			}
			r.done = make(chan struct{}) // as while finish goes on
			r.first.Allowed = false
			time.AfterFunc(time.Millisecond, func() {
				r.first.Allowed = true
				close(r.done)
			})
			if d := s.rule.awaitOwn(ctx, &request{}, r); d.Err != nil || !d.Allowed {
				t.Fatalf("before the end: %+v", d)
			}
		}
	})
}

// leave leaves the client the given units, and demand for a larger lease.
func (s *fixture) leave(t *testing.T, units int64) {
	t.Helper()
	s.warmUp(t, 20)
	s.drain(t)
	remaining := s.Decide(s.Now(), core.Ask{}).Remaining
	s.Decide(s.Now(), core.Ask{Cost: remaining - units})
}

// TestRenewTwice: a renewal asks for a smaller lease once, however the rest shrinks.
func TestRenewTwice(t *testing.T) {
	inBubble(t, 100, func(t *testing.T, s *fixture) {
		s.leave(t, 10)
		others, before := 0, s.Scripts
		s.store.Delay = func() time.Duration { // another process takes a unit
			s.Decide(s.Now(), core.Ask{Cost: 1})
			others++
			return s.delay
		}
		if d := s.allow(t, 1); !d.Allowed {
			t.Errorf("%+v", d)
		}
		if n := s.Scripts - before - others; n != 3 { // two for a lease, and one for the request
			t.Errorf("%d scripts, want 3", n)
		}
	})
}

// TestRenewWholeRequests: what is leased where there is less than wanted is for whole requests.
func TestRenewWholeRequests(t *testing.T) {
	inBubble(t, 100, func(t *testing.T, s *fixture) {
		s.leave(t, 11)
		if d := s.allow(t, 3); !d.Allowed || s.unspent() != 6 {
			t.Errorf("%+v, %d left, want 6", d, s.unspent())
		}
	})
}

// TestNothingToLease: if there is nothing to lease, no unit is counted for a caller that has left. The recorded round
// trip of a caller that waits excludes the wait.
func TestNothingToLease(t *testing.T) {
	inBubble(t, 100, func(t *testing.T, s *fixture) {
		s.leave(t, 1)
		s.delay = 10 * time.Millisecond
		if err := s.take(t.Context(), time.Millisecond).Err; err == nil {
			t.Error("answered in time")
		}
		time.Sleep(5 * s.delay)
		if n := s.Decide(s.Now(), core.Ask{}).Remaining; n != 1 {
			t.Errorf("%d units remain, want 1", n)
		}
		start := time.Now()
		d, took := s.allow(t, 1), time.Since(start)
		if got := s.rule.entry("client").roundTrip; !d.Allowed || got != 2*s.delay || took != 2*got {
			t.Errorf("%+v: a round trip of %v of %v, want one of %v of two", d, got, took, 2*s.delay)
		}
	})
}

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
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t, core.Per(100_000, time.Minute), 1000)
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
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, core.Per(100_000, time.Minute), 1000)
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
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, core.Per(100_000, time.Minute), 1000)
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

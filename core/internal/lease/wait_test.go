package lease

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/denycache"
)

// slow sets the round trip, and renews once so that the lease knows it.
func (s *fixture) slow(t *testing.T, roundTrip time.Duration) {
	t.Helper()
	s.warmUp(t, 20)
	s.drain(t)
	s.delay = roundTrip / 2
	start := time.Now()
	if d := s.allow(t, 1); !d.Allowed || time.Since(start) != roundTrip || s.unspent() == 0 {
		t.Fatalf("%+v after %v, %d left", d, time.Since(start), s.unspent())
	}
	s.drain(t)
}

// TestSlowLinkLost: over a slow link too, a caller that waits for a renewal that never ends waits no longer than its
// timeout.
func TestSlowLinkLost(t *testing.T) {
	inBubble(t, 1000, func(t *testing.T, s *fixture) {
		s.slow(t, 75*time.Millisecond)
		s.store.silent.Store(true)
		var group sync.WaitGroup
		const patient = time.Second // it goes to the next ledger after twice the last round trip
		for _, ms := range []time.Duration{100, 90, 80, 1000} {
			timeout := ms * time.Millisecond
			group.Go(func() {
				start := time.Now()
				err := s.take(t.Context(), timeout).Err
				// A request that is late still asks for a nanosecond: the refusal may be cached.
				elapsed := time.Since(start)
				if elapsed > timeout+1 || timeout == patient && (err != nil || elapsed != 3*75*time.Millisecond) {
					t.Errorf("with %v: waited %v, %v", timeout, elapsed, err)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		time.Sleep(time.Second)
	})
}

// TestStage: a request that waits for the renewal of another one says so when it fails: because the renewal fails, or
// because its time is over. The error of the request that renews is the next ledger's.
func TestStage(t *testing.T) {
	lose := func(s *fixture) { s.store.LosesReply = func() bool { return true } }
	silence := func(s *fixture) { s.store.silent.Store(true) }
	for own, fail := range map[core.Stage]func(*fixture){core.StageUnknown: lose, core.StageReply: silence} {
		inBubble(t, 1000, func(t *testing.T, s *fixture) {
			s.slow(t, 75*time.Millisecond)
			fail(s)
			before := s.Scripts
			var group sync.WaitGroup
			for _, want := range []core.Stage{own, core.StageLease, core.StageLease} {
				group.Go(func() {
					err := s.take(t.Context(), core.DefaultTimeout).Err
					if err == nil || core.StageOf(err) != want {
						t.Errorf("%v at the stage %q, want an error at %q", err, core.StageOf(err), want)
					}
					if want == core.StageReply && !strings.Contains(err.Error(), "waiting for a lease") {
						t.Errorf("%v does not say what it waited for", err)
					}
				})
				synctest.Wait()
			}
			group.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			if n := s.Scripts - before; own == core.StageUnknown && n != 1 {
				t.Errorf("%d scripts, want that of the renewal alone", n)
			}
		})
	}
}

// TestSlowLinkCrowd: over a slow link, callers beyond a small lease go to the next ledger at once, whatever their
// timeout.
func TestSlowLinkCrowd(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, s *fixture) {
		const roundTrip = 60 * time.Millisecond
		s.slow(t, roundTrip)
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				start := time.Now()
				if err := s.take(t.Context(), time.Second).Err; err != nil || time.Since(start) > roundTrip {
					t.Errorf("%v after %v, want an answer after %v", err, time.Since(start), roundTrip)
				}
			})
		}
		group.Wait()
	})
}

// TestSecondRenewal: callers that got nothing of a lease do not depend on the reply to the next renewal as well.
func TestSecondRenewal(t *testing.T) {
	for _, c := range []struct{ roundTrip, timeout, served time.Duration }{
		{8 * time.Millisecond, core.DefaultTimeout, nextRenewTimeout + 8*time.Millisecond},
		{30 * time.Millisecond, core.DefaultTimeout, 60 * time.Millisecond},
		{8 * time.Millisecond, 24 * time.Millisecond, 20 * time.Millisecond},
	} {
		inBubble(t, 4, func(t *testing.T, s *fixture) {
			s.slow(t, c.roundTrip)
			start := time.Now()
			time.AfterFunc(time.Millisecond, func() { s.store.silent.Store(true) })
			var group sync.WaitGroup
			var failed, served atomic.Int64
			for range 100 {
				group.Go(func() {
					if err := s.take(t.Context(), c.timeout).Err; err != nil {
						failed.Add(1)
					} else {
						served.Store(int64(time.Since(start))) // the latest
					}
				})
			}
			group.Wait()
			if latest := time.Duration(served.Load()); latest != c.served {
				t.Errorf("%v: the last was served after %v", c, latest)
			}
			if n := failed.Load(); n != 1 { // the caller that renews
				t.Errorf("%v: %d callers failed, want 1", c, n)
			}
			time.Sleep(time.Second)
		})
	}
}

// TestNotLeased: a cost that no lease can hold, a cost of 0 and a peek do not wait for a renewal, and are no part of
// the client's rate.
func TestNotLeased(t *testing.T) {
	for _, a := range []core.Ask{{Cost: 1001}, {Cost: 0}, {Cost: 1, Peek: true}} {
		inBubble(t, 1000, func(t *testing.T, s *fixture) {
			s.warmUp(t, 20)
			s.drain(t)
			s.delay = 10 * time.Millisecond
			var group sync.WaitGroup
			s.crowd(t, &group, 1)
			time.Sleep(5 * time.Millisecond)
			start := time.Now()
			a.Key, a.Timeout = "client", core.DefaultTimeout
			if d := s.rule.Take(t.Context(), a); d.Err != nil || !d.Allowed || time.Since(start) != 2*s.delay {
				t.Errorf("%+v: %+v after %v, want an answer after %v", a, d, time.Since(start), 2*s.delay)
			}
			group.Wait()
			if n := s.rule.entry(a.Key).admitted; n != 1 || !s.rule.canLease(&request{Ask: core.Ask{Cost: 1000}}) {
				t.Errorf("%+v: the client has %d units admitted since the lease, want 1", a, n)
			}
		})
	}
}

// TestRefusalForWaiters: if there is nothing to lease, the refusal of the renewal's caller answers the callers that
// wait.
func TestRefusalForWaiters(t *testing.T) {
	inBubble(t, 100, func(t *testing.T, s *fixture) {
		s.leave(t, 0)
		s.rule.Ledger = denycache.New().Wrap(core.Binding{Name: "lease"}, s.store)
		before := s.Scripts
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if d := s.allow(t, 1); d.Allowed || d.Err != nil {
					t.Errorf("%+v", d)
				}
			})
		}
		group.Wait()
		if d := s.allow(t, 1); d.Allowed || d.Source != core.SourceCached {
			t.Errorf("afterwards: %+v", d)
		}
		if n := s.Scripts - before; n != 2 { // for a lease, and for one request
			t.Errorf("%d scripts, want 2", n)
		}
	})
}

// TestStartWait: a request waits for other callers for half of its time and at most renewTimeout. One
// without a timeout has a minute.
func TestStartWait(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, deadline, want time.Duration }{
		{0, MaxLifetime, renewTimeout},
		{1, 1, 0},
		{60 * ms, 60 * ms, 30 * ms},
		{time.Hour, time.Hour, renewTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			q, now := request{Ask: core.Ask{Timeout: c.timeout}}, time.Now()
			if q.startWait(); q.deadline.Sub(now) != c.deadline || q.Timeout != c.deadline || q.maxWait != c.want {
				t.Errorf("%+v: waits until %v for %v", c, q.deadline, q.maxWait)
			}
		})
	}
}

// TestUpdateTimeout: a request that has waited has the time that is left, and is late if that is none.
func TestUpdateTimeout(t *testing.T) {
	for _, c := range []struct {
		deadline, want time.Duration
		late           bool
	}{{10, 10, false}, {1, 1, false}, {time.Second, time.Second, false}, {-1, 1, true}} {
		synctest.Test(t, func(t *testing.T) {
			q := request{Ask: core.Ask{Timeout: 7}, deadline: time.Now().Add(c.deadline)}
			if late := q.updateTimeout(); late != c.late || q.Timeout != c.want {
				t.Errorf("%+v: %v left, late: %v", c, q.Timeout, late)
			}
			if q.deadline = time.Now(); !q.updateTimeout() {
				t.Error("not late at the deadline")
			}
		})
	}
}

// TestReserve: where a renewal comes in time for a request, that needs no units of it. Else there must be enough, and
// the request waits for as long as it may.
func TestReserve(t *testing.T) {
	const maxWait, timeout = 40 * time.Millisecond, 200 * time.Millisecond
	for _, c := range []struct {
		roundTrip time.Duration
		cost      int64
		want      bool
		maxWait   time.Duration
		free      int64
	}{
		{30 * time.Millisecond, 6, true, maxWait, 5},
		{30*time.Millisecond + 1, 6, false, maxWait, 5},
		{30*time.Millisecond + 1, 5, true, timeout, 0},
		{30*time.Millisecond + 1, 2, true, timeout, 3},
	} {
		r := &renewal{lease: &lease{roundTrip: c.roundTrip}, free: 5}
		q := &request{Ask: core.Ask{Cost: c.cost, Timeout: timeout}, maxWait: maxWait}
		if got := r.reserve(q); got != c.want || q.maxWait != c.maxWait || r.free != c.free {
			t.Errorf("%+v: %v, waits for %v, %d are free", c, got, q.maxWait, r.free)
		}
	}
}

package lease

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/sashlimit/sash/core"
)

// TestSize: a lease holds the client's demand in half a lifetime, at most twice the units admitted before, at most
// Terms.Size, and whole requests.
func TestSize(t *testing.T) {
	terms := Terms{Size: 1000, Lifetime: 100 * time.Millisecond}
	for _, c := range []struct {
		admitted int64
		elapsed  time.Duration
		cost     int64
		want     int64
	}{
		{100, 100 * time.Millisecond, 1, 50},
		{100, 200 * time.Millisecond, 1, 25},
		{100, 50 * time.Millisecond, 1, 100},
		{100, time.Millisecond, 1, 200}, // a burst
		{100, 20 * time.Millisecond, 1, 200},
		{100, 0, 1, 200},
		{100, -time.Second, 1, 200}, // it is refused until then
		{5000, 50 * time.Millisecond, 1, 1000},
		{100, 100 * time.Millisecond, 7, 49},
		{0, time.Millisecond, 1, 0},
	} {
		now := time.Now()
		e := lease{since: now.Add(-c.elapsed), admitted: c.admitted}
		if got := e.size(now, c.cost, terms); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestLowDemand: a client whose demand is no larger than the request gets no lease.
func TestLowDemand(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, s *fixture) {
		for admitted, want := range map[int64]bool{2: false, 4: true} { // in a lifetime
			q := request{Ask: core.Ask{Key: "client", Cost: 1}, now: time.Now()}
			q.holder, q.shard = s.rule.holder("client")
			e := &lease{since: q.now.Add(-s.rule.terms.Lifetime), admitted: admitted}
			if r := s.rule.startRenewal(t.Context(), &q, e); (r != nil) != want {
				t.Errorf("admitted %d in a lifetime: %+v", admitted, r)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
	})
}

// TestRecord: demand is counted for a lifetime, without the time in which the client is refused.
func TestRecord(t *testing.T) {
	const lifetime = 100 * time.Millisecond
	since := time.Now()
	after := func(d time.Duration) time.Time { return since.Add(d) }
	admitted, refused := core.Decision{Allowed: true}, core.Decision{RetryAfter: 30 * time.Millisecond}
	late := core.Decision{Err: core.ErrTimeout}
	for name, c := range map[string]struct {
		retry  time.Time
		answer answer
		want   lease
	}{
		"in the lifetime": {after(time.Second), answer{sent: after(50), received: after(60), units: 3, reply: admitted},
			lease{since: since, admitted: 8, roundTrip: 10}},
		"at its end": {after(0), answer{sent: after(50), received: after(lifetime), units: 3, reply: admitted},
			lease{since: since, admitted: 8, roundTrip: lifetime - 50}},
		"later": {after(0), answer{sent: after(50), received: after(lifetime + 1), units: 3, reply: admitted},
			lease{since: after(50), admitted: 3, roundTrip: lifetime - 49}},
		"refused": {after(50), answer{sent: after(40), received: after(50), units: 3, reply: refused},
			lease{since: after(refused.RetryAfter - 10), admitted: 5, retry: after(refused.RetryAfter + 40)}},
		"still refused": {after(51), answer{sent: after(40), received: after(50), units: 3, reply: refused},
			lease{since: since, admitted: 5, retry: after(refused.RetryAfter + 40)}},
		"an error": {after(7), answer{sent: after(40), received: after(lifetime + 1), units: 3, reply: late},
			lease{since: since, admitted: 5, retry: after(7)}},
	} {
		e := lease{since: since, admitted: 5, retry: c.retry}
		if e.record(c.answer, lifetime); e != c.want {
			t.Errorf("%s: %+v, want %+v", name, e, c.want)
		}
	}
}

// TestClock: what is spent from a lease is spent at a time that is read under the lease's lock. Read before, it might
// be from before the lease was taken, by the time that the lock is free.
func TestClock(t *testing.T) {
	inBubble(t, 50, func(t *testing.T, s *fixture) {
		s.acquire(t)
		_, shard := s.rule.holder("client")
		read := false
		s.rule.table.now = func() time.Time {
			read = true
			if shard.mu.TryLock() {
				shard.mu.Unlock()
				t.Error("the clock is read without the lock")
			}
			return time.Now()
		}
		left := s.unspent()
		if d := s.allow(t, 1); !d.Allowed || d.Err != nil || !read || s.unspent() != left-1 {
			t.Errorf("%+v; clock read: %v; %d were unspent, %d are", d, read, left, s.unspent())
		}
	})
}

// step returns the time after a step of the wall clock alone, by some seconds.
func step(t *testing.T, at time.Time, seconds int) time.Time {
	t.Helper()
	later := at
	*(*uint64)(unsafe.Pointer(&later)) += uint64(seconds << 30) // see time.Time
	if later.Sub(at) != 0 || later.Round(0).Sub(at.Round(0)) != time.Duration(seconds)*time.Second {
		t.Fatalf("%v is not %v stepped by %d s", later, at, seconds)
	}
	return later
}

// TestClocks: a lease is over when one of the clocks of the process says so: the monotonic clock stands still while
// the process is suspended, and the wall clock may be stepped back.
func TestClocks(t *testing.T) {
	begin := time.Now()
	e := lease{left: 1, until: begin.Add(2 * time.Second)}
	for _, c := range []struct {
		monotonic, wall int // seconds later
		want            bool
	}{{0, 0, true}, {1, 1, true}, {2, 2, false}, {0, 2, false}, {2, 0, false}, {0, 1, true}} {
		now := step(t, begin.Add(time.Duration(c.monotonic)*time.Second), c.wall-c.monotonic)
		if got := e.canUse(now, 1); got != c.want {
			t.Errorf("%+v: can be spent: %v", c, got)
		}
	}
	if e.canUse(begin, 2) {
		t.Error("2 units can be spent of 1")
	}
}

// TestLifetime: a lease is spent until a thousandth before its end, computed from before its request.
func TestLifetime(t *testing.T) {
	inBubble(t, 1000, func(t *testing.T, s *fixture) {
		s.delay = 10 * time.Millisecond
		var sent time.Time
		for s.unspent() < 2 {
			sent = time.Now()
			s.allow(t, 1)
		}
		end := sent.Add(s.rule.terms.Lifetime * 999 / 1000)
		time.Sleep(time.Until(end) - 1)
		if d := s.allow(t, 1); !d.Allowed || d.Source != core.SourceLeased {
			t.Errorf("before the end: %+v", d)
		}
		time.Sleep(time.Nanosecond)
		if d := s.allow(t, 1); !d.Allowed || d.Source != core.SourceCounted {
			t.Errorf("at the end: %+v", d)
		}
	})
}

// TestResetAfter: when the oldest unit has left since a lease was taken, quota may come back at any time.
func TestResetAfter(t *testing.T) {
	now := time.Now()
	e := lease{left: 5, received: now, reply: core.Decision{ResetAfter: 10 * time.Millisecond}}
	for later, want := range map[time.Duration]time.Duration{
		0: 10 * time.Millisecond, 4 * time.Millisecond: 6 * time.Millisecond, 20 * time.Millisecond: time.Microsecond,
	} {
		if d := e.use(now.Add(later), 1, false, time.Second); d.ResetAfter != want {
			t.Errorf("after %v: %v, want %v", later, d.ResetAfter, want)
		}
	}
}

// TestNumbers: the numbers of a client's only process are those of a store without leases, within the lifetime.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []core.Limit{core.Per(500, time.Second).Named("a"), core.Per(600, time.Minute).Named("b")}
		s := newFixture(Terms{50, 100 * time.Millisecond}, limits...)
		s.Skew = time.Hour
		admitted := s.warmUp(t, 1)
		var last time.Time
		for admitted < 500 {
			before := s.Scripts
			if d := s.allow(t, 0); !d.Allowed || d.Remaining != 500-admitted {
				t.Fatalf("a cost of 0 after %d: %+v", admitted, d)
			}
			peek := s.limiter.Peek(t.Context(), "client")
			renewed := s.Scripts != before
			d := s.allow(t, 1)
			if admitted++; !d.Allowed || d.Limit != limits[0] || d.Remaining != 500-admitted || d.RetryAfter != 0 {
				t.Fatalf("request %d: %+v", admitted, d)
			}
			if renewed {
				last = time.Time{}
				continue // at another moment than the peek
			}
			if peek != d {
				t.Fatalf("request %d: %+v, a peek said %+v", admitted, d, peek)
			}
			now, newest := time.Now().Add(s.Skew), time.UnixMicro(s.Charges[len(s.Charges)-1].Stamp)
			if d.At.After(newest) || d.At.After(now) || now.Sub(d.At) > 200*time.Microsecond || d.At.Before(last) {
				t.Fatalf("request %d at %v: At %v, before %v, the lease ends at %v", admitted, now, d.At, last, newest)
			}
			last = d.At
			frees := d.At.Add(d.ResetAfter)
			if !frees.Equal(time.UnixMicro(s.Charges[0].Stamp).Add(limits[0].Window)) {
				t.Fatalf("request %d: quota comes back at %v", admitted, frees)
			}
			time.Sleep(700 * time.Microsecond)
		}
	})
}

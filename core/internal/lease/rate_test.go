package lease

import (
	"testing"
	"testing/synctest"
	"time"

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
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, core.Per(100_000, time.Minute), 4)
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

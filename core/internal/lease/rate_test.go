package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestWant: a lease is of as much as the client asks for in half a lifetime, of no more than twice what it has asked
// for, of no more than a lease may be, and of whole requests.
func TestWant(t *testing.T) {
	terms := Terms{Size: 1000, Lifetime: 100 * time.Millisecond}
	for _, c := range []struct {
		asked   int64
		elapsed time.Duration
		cost    int64
		want    int64
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
		e := lease{since: now.Add(-c.elapsed), asked: c.asked}
		if got := e.want(now, c.cost, terms); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestWantNothingMore: a client that asks for no more than it has just asked for gets no lease.
func TestWantNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, core.Per(100_000, time.Minute), 4)
		for asked, want := range map[int64]bool{2: false, 4: true} { // in a lifetime
			q := request{Ask: core.Ask{Key: "client", Cost: 1}, now: time.Now()}
			q.holder, q.shard = s.rule.holder("client")
			e := &lease{since: q.now.Add(-s.rule.terms.Lifetime), asked: asked}
			if r := s.rule.startRenewal(t.Context(), &q, e); (r != nil) != want {
				t.Errorf("asked for %d in a lifetime: %+v", asked, r)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
	})
}

// TestLearn: what a client asks for is counted for a lifetime, and the time in which it is refused is left out.
func TestLearn(t *testing.T) {
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
			lease{since: since, asked: 8, took: 10}},
		"at its end": {after(0), answer{sent: after(50), received: after(lifetime), units: 3, reply: admitted},
			lease{since: since, asked: 8, took: lifetime - 50}},
		"later": {after(0), answer{sent: after(50), received: after(lifetime + 1), units: 3, reply: admitted},
			lease{since: after(50), asked: 3, took: lifetime - 49}},
		"refused": {after(50), answer{sent: after(40), received: after(50), units: 3, reply: refused},
			lease{since: after(refused.RetryAfter - 10), asked: 5, retry: after(refused.RetryAfter + 40)}},
		"still refused": {after(51), answer{sent: after(40), received: after(50), units: 3, reply: refused},
			lease{since: since, asked: 5, retry: after(refused.RetryAfter + 40)}},
		"an error": {after(7), answer{sent: after(40), received: after(lifetime + 1), units: 3, reply: late},
			lease{since: since, asked: 5, retry: after(7)}},
	} {
		e := lease{since: since, asked: 5, retry: c.retry}
		if e.learn(c.answer, lifetime); e != c.want {
			t.Errorf("%s: %+v, want %+v", name, e, c.want)
		}
	}
}

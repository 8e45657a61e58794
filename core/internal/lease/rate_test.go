package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/storetest"
)

// TestRateSaturated: four processes that ask for far more than there is
// get between N / (W + D) and N / W, with few scripts.
func TestRateSaturated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, lifetime, windows := core.Per(1000, time.Second), 100*time.Millisecond, 20
		h := &history{server: fakeserver.New(0, limit), longest: lifetime}
		end := time.Now().Add(time.Duration(windows) * limit.Window)
		var group sync.WaitGroup
		for range 4 {
			l, _ := process(fakeserver.Quick(h.server), 100, lifetime)
			for range 4 {
				group.Go(func() {
					for time.Now().Before(end) {
						d := h.take(context.Background(), l, 1)
						time.Sleep(max(d.RetryAfter, 20*time.Microsecond))
					}
				})
			}
		}
		group.Wait()
		if err := h.check(); err != nil {
			t.Fatal(err)
		}
		least := float64(limit.Requests) * float64(windows) / (1 + lifetime.Seconds()/limit.Window.Seconds())
		most := limit.Requests * int64(windows)
		t.Logf("%d admitted in %d windows, at least %.0f and at most %d possible; %d scripts",
			len(h.used), windows, least, most, h.server.Scripts)
		if float64(len(h.used)) < 0.97*least || int64(len(h.used)) > most+limit.Requests {
			t.Error("the rate is not as promised")
		}
		if 7*h.server.Scripts > len(h.used) {
			t.Error("too many scripts")
		}
	})
}

// TestRareKeys: a client that comes less often than leases pay is decided
// as without them: every request asks, and is refused not a moment early.
func TestRareKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, lifetime := core.Per(20, 2*time.Second), 100*time.Millisecond
		h := &history{server: fakeserver.New(0, limit), longest: 0}
		var group sync.WaitGroup
		for i := range uint64(3) {
			l, _ := process(fakeserver.Quick(h.server), 10, lifetime)
			rng := rand.New(rand.NewPCG(i, 24))
			group.Go(func() {
				for range 300 {
					h.take(context.Background(), l, 1)
					time.Sleep(lifetime/2 + time.Duration(rng.Int64N(int64(4*lifetime))))
				}
			})
		}
		group.Wait()
		if h.local > 0 || h.server.Scripts != 900 || len(h.refused) == 0 {
			t.Errorf("%d scripts, %d decisions without one, %d refused", h.server.Scripts, h.local, len(h.refused))
		}
		for _, r := range h.refused {
			h.used = append(h.used, storetest.Outcome{At: time.UnixMicro(r.Taken), Cost: r.Units})
		}
		if err := storetest.CheckLogs(h.used, limit); err != nil {
			t.Error(err)
		}
	})
}

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

// TestLearn: what a client asks for is counted for a lifetime, and the time in which it is refused is left out.
func TestLearn(t *testing.T) {
	const lifetime = 100 * time.Millisecond
	since := time.Now()
	after := func(d time.Duration) time.Time { return since.Add(d) }
	admitted, refused := core.Decision{Allowed: true}, core.Decision{RetryAfter: 30 * time.Millisecond}
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
		"an error": {after(7), answer{sent: after(40), received: after(lifetime + 1), units: 3, err: core.ErrTimeout},
			lease{since: since, asked: 5, retry: after(7)}},
	} {
		e := lease{since: since, asked: 5, retry: c.retry}
		if e.learn(c.answer, lifetime); e != c.want {
			t.Errorf("%s: %+v, want %+v", name, e, c.want)
		}
	}
}

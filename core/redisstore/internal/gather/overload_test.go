package gather

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOverload: of more calls than the server can answer, as many are in time as if there were no others. If not the
// server but the way to it takes long, enough batches are under way.
func TestOverload(t *testing.T) {
	const ms, timeout = time.Millisecond, 100 * time.Millisecond
	for name, test := range map[string]struct {
		way, batch time.Duration // that a batch takes, and for which it keeps all other batches waiting
		offered    int           // calls per second
		least      int64         // answers in the last second: of a slow server nearly all that it can give
		most       int           // batches under way at a time
	}{
		"a slow server": {0, 10 * ms, 6400, 3100, 10},
		"far too many":  {0, 10 * ms, 16_000, 3100, 10},
		"slower still":  {0, 20 * ms, 10_000, 1600, 6},
		"slowest":       {0, 30 * ms, 10_000, 1050, 5},
		"a long way":    {15 * ms, 0, 20_000, 20_000, 16},
		"a longer way":  {40 * ms, 0, 10_000, 10_000, 16},
		"too long":      {60 * ms, 0, 10_000, 1600, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := make(chan bool, 1)
				var batches gauge
				waiting := 0
				var q *testQueue
				q = New(byCallers(timeout, func(batch []*testCall) bool {
					batches.enter()
					defer batches.leave()
					q.mu.Lock()
					waiting = max(waiting, len(q.waiting))
					q.mu.Unlock()
					server <- true
					time.Sleep(test.batch)
					<-server
					time.Sleep(test.way)
					return echo(batch)
				}))
				n := offer(q, 2, test.offered, timeout)
				checkEmpty(t, q)
				most := batches.restart()
				if n < test.least {
					t.Errorf("%d of %d calls were answered, want at least %d", n, test.offered, test.least)
				}
				if most > test.most {
					t.Errorf("%d batches were under way, want at most %d", most, test.most)
				}
				if want := test.offered * int(timeout/ms) * 11 / 10_000; waiting > want {
					t.Errorf("up to %d calls waited, want at most %d: those whose deadlines have not passed", waiting, want)
				}
				t.Logf("%d of %d calls, up to %d batches", n, test.offered, most)
			})
		})
	}
}

// TestUnsteadyWay: if replies take now a short time, now a long one, batches that have been overtaken do not keep other
// batches from being sent: of 10,000 calls a second some 7300 are in time, and 4000 if such batches were waited for.
func TestUnsteadyWay(t *testing.T) {
	const seconds, rate, least, longest = 6, 10_000, 5500, 120 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(func(batch []*testCall) bool {
			time.Sleep(rand.N(longest))
			return echo(batch)
		}))
		if n := offer(q, seconds, rate, 100*time.Millisecond) / (seconds - 1); n < least {
			t.Errorf("%d calls a second were answered, want at least %d", n, least)
		}
		checkEmpty(t, q)
	})
}

// TestSlotsGoWithTheCrowd: when a crowd has gone, or batches take long, there are as few slots as before.
func TestSlotsGoWithTheCrowd(t *testing.T) {
	const ms = time.Millisecond
	for name, later := range map[string]struct {
		callers int
		takes   time.Duration
	}{
		"few come later":        {60, 15 * ms},
		"batches take long":     {1000, 2 * promptReply},
		"one comes, takes long": {1, 2 * promptReply},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var batches gauge
				takes := 15 * ms
				q := New(byWorkers(func(batch []*testCall) bool {
					batches.enter()
					defer batches.leave()
					time.Sleep(takes)
					return echo(batch)
				}))
				for range 2 {
					takes = 15 * ms
					if n := offer(q, 2, 20_000, time.Minute); n != 20_000 {
						t.Errorf("%d calls of a crowd were answered, want 20000", n)
					}
					if most := batches.restart(); most <= minSlots {
						t.Errorf("for a crowd %d batches were under way, want more than %d", most, minSlots)
					}
					takes = later.takes
					for range 3 {
						serveEach(t, q, later.callers)
						batches.restart()
						time.Sleep(idleTime / 2)
					}
					serveEach(t, q, crowd)
					if most := batches.restart(); most > minSlots {
						t.Errorf("later %d batches were under way, want at most %d", most, minSlots)
					}
				}
				checkEmpty(t, q)
			})
		})
	}
}

// TestSlotsGoWhileTheCrowdWaits: when batches come to take long while a crowd waits, there soon are as few slots as
// before: the workers that are too many do not go on.
func TestSlotsGoWhileTheCrowdWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches gauge
		var served atomic.Int64
		q := New(byWorkers(func(batch []*testCall) bool {
			batches.enter()
			defer batches.leave()
			if served.Add(1) == 2*maxSlots {
				batches.restart()
			}
			time.Sleep(promptReply)
			return echo(batch)
		}))
		q.slots.total = maxSlots
		serveEach(t, q, 3*maxSlots*MaxBatch)
		if most := batches.restart(); most > minSlots {
			t.Errorf("%d batches were under way, want at most %d", most, minSlots)
		}
		checkEmpty(t, q)
	})
}

// TestFewSlotsForFewCallers: 64 callers that come again and again are no crowd, and get no more than minSlots.
func TestFewSlotsForFewCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches gauge
		q := New(byCallers(time.Minute, func(batch []*testCall) bool {
			batches.enter()
			defer batches.leave()
			time.Sleep(time.Millisecond)
			return echo(batch)
		}))
		for range 10 {
			serveEach(t, q, 64)
		}
		if most := batches.restart(); most > minSlots {
			t.Errorf("%d batches were under way, want at most %d", most, minSlots)
		}
		checkEmpty(t, q)
	})
}

// TestNearCrowd: many calls at hand of a near server get by with busySlots, besides those that are held. Fewer calls do
// not, nor do many of a server that is further away.
func TestNearCrowd(t *testing.T) {
	const near = nearReply - 1
	for name, test := range map[string]struct {
		took                      time.Duration
		calls, held, before, want int
	}{
		"many":               {near, busyCalls, 0, minSlots, busySlots},
		"fewer":              {near, busyCalls - 1, 0, busySlots, busySlots + 1},
		"many, further off":  {nearReply, busyCalls, 0, busySlots, busySlots + 1},
		"many, some held":    {near, busyCalls, 1, busySlots, busySlots + 1},
		"many, as many held": {near, busyCalls, minSlots, minSlots, minSlots},
		"an unsteady way":    {near, busyCalls, maxSlots - 1, maxSlots, maxSlots},
	} {
		s := slots{total: test.before}
		if s.adapt(test.took, test.calls, 1, test.held); s.total != test.want {
			t.Errorf("%s: %d slots, want %d", name, s.total, test.want)
		}
	}
}

// TestSlotsComeBack: a slow server gets fewer slots, and minSlots when it is prompt again, although some calls wait.
func TestSlotsComeBack(t *testing.T) {
	q := New(byWorkers(echo))
	q.waiting = make([]*testCall, 10)
	for _, test := range []struct {
		took time.Duration
		want int
	}{{promptReply, fewestSlots}, {promptReply - 1, minSlots}} {
		for range maxSlots {
			b := &batch[int64, int64]{sentAt: time.Unix(0, 0)}
			q.underWay = append(q.underWay, b)
			q.end(b, b.sentAt.Add(test.took))
		}
		if q.slots.total != test.want {
			t.Errorf("%d slots after replies of %v, want %d", q.slots.total, test.took, test.want)
		}
	}
}

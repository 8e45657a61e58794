package gather

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLostFreesItsSlot: calls that come while others are patient with a server that does not answer them, wait for a
// slot for a moment and no longer.
func TestLostFreesItsSlot(t *testing.T) {
	for _, inline := range []time.Duration{0, time.Hour} {
		t.Run(inlineName(inline)[1:], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(byCallers(inline, func(batch []*testCall) bool {
					if batch[0].Request < 0 {
						time.Sleep(10 * time.Second)
					}
					return echo(batch)
				}))
				var group sync.WaitGroup
				call := func(request int64, most time.Duration) {
					group.Go(func() {
						if took, err := ask(q, request, time.Minute); err != nil || took > most {
							t.Errorf("request %d: %v after %v, want an answer after at most %v", request, err, took, most)
						}
					})
					synctest.Wait()
				}
				for range minSlots {
					call(-1, 10*time.Second)
				}
				for range 20 {
					for i := range int64(2 * MaxBatch) {
						call(i, lostAfter+timerPause)
					}
					time.Sleep(lostAfter)
				}
				group.Wait()
				checkEmpty(t, q)
			})
		})
	}
}

// TestGivingUpIsNoReply: that patient callers give up, one after another, says nothing about how long replies take.
// Calls that come meanwhile wait for a slot no longer.
func TestGivingUpIsNoReply(t *testing.T) {
	const many, pause = 40, lostAfter * 3 / 4
	synctest.Test(t, func(t *testing.T) {
		gaveUp := time.Now().Add(time.Minute)
		endOf := func(patient int64) time.Time { return gaveUp.Add(time.Duration(patient) * pause) }
		q := New(byWorkers(func(batch []*testCall) bool {
			if patient := batch[0].Request; patient > 0 {
				time.Sleep(time.Until(endOf(patient)))
				return false
			}
			return echo(batch)
		}))
		var group sync.WaitGroup
		giveUp := func(patient int64) {
			if _, err := ask(q, patient, time.Until(endOf(patient))); !errors.Is(err, errLate) {
				t.Errorf("%d: %v", patient, err)
			}
		}
		for i := range int64(many) {
			group.Go(func() { giveUp(1 + i) })
			time.Sleep(lostAfter + timerPause) // until there is another slot
		}
		time.Sleep(time.Until(gaveUp))
		for range minSlots {
			group.Go(func() { giveUp(many + 1) })
			synctest.Wait()
		}
		if took, err := ask(q, 0, time.Hour); err != nil || took > lostAfter+timerPause {
			t.Errorf("%v after %v, want an answer after at most %v", err, took, lostAfter+timerPause)
		}
		group.Wait()
		checkEmpty(t, q)
	})
}

// TestLostAmongOthers: batches are presumed lost also while others are answered. Otherwise few slots would be left
// where replies are lost and callers are patient.
func TestLostAmongOthers(t *testing.T) {
	const way = 60 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var batches gauge
		q := New(byWorkers(func(batch []*testCall) bool {
			batches.enter()
			defer batches.leave()
			if batch[0].Request < 0 {
				time.Sleep(time.Minute) // the reply is lost
				return false
			}
			time.Sleep(way)
			return echo(batch)
		}))
		start := time.Now()
		var group sync.WaitGroup
		if _, err := ask(q, 1, time.Minute); err != nil { // which tells how long the way is
			t.Error(err)
		}
		for range minSlots {
			group.Go(func() { _, _ = ask(q, -1, time.Minute) })
			synctest.Wait()
		}
		for range 2000 {
			group.Go(func() {
				began := time.Since(start)
				if took, err := ask(q, 1, time.Minute); err != nil || began > 10*way && took > 3*way {
					t.Errorf("%v after the start: %v after %v, want an answer after at most %v", began, err, took, 3*way)
				}
			})
			time.Sleep(time.Millisecond)
		}
		group.Wait()
		if most := batches.restart(); most > 2*minSlots {
			t.Errorf("%d batches were under way, want at most %d", most, 2*minSlots)
		}
		checkEmpty(t, q)
	})
}

// TestOvertakenReply: a reply that comes long after the replies to newer batches does not make such a time appear
// usual. Calls that come then wait for a slot no longer.
func TestOvertakenReply(t *testing.T) {
	const late = 100 * lostAfter
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(func(batch []*testCall) bool {
			switch batch[0].Request {
			case -1:
				time.Sleep(late)
			case -2:
				time.Sleep(time.Minute)
				return false
			}
			return echo(batch)
		}))
		var group sync.WaitGroup
		group.Go(func() { _, _ = ask(q, -1, time.Minute) })
		time.Sleep(late - lostAfter/2)
		if _, err := ask(q, 1, time.Minute); err != nil {
			t.Error(err)
		}
		for range minSlots {
			group.Go(func() { _, _ = ask(q, -2, time.Minute) })
			synctest.Wait()
		}
		time.Sleep(lostAfter) // until the late reply has come
		if took, err := ask(q, 1, time.Minute); err != nil || took > lostAfter+timerPause {
			t.Errorf("%v after %v, want an answer after at most %v", err, took, lostAfter+timerPause)
		}
		group.Wait()
		checkEmpty(t, q)
	})
}

// TestShorterRoundTrip: once replies come faster, a batch is presumed lost by the new round trip, also if no other
// batch is sent after that.
func TestShorterRoundTrip(t *testing.T) {
	const slow, fast = 10 * time.Second, promptReply
	synctest.Test(t, func(t *testing.T) {
		q := New(byWorkers(func(batch []*testCall) bool {
			time.Sleep(time.Duration(batch[0].Request))
			return echo(batch)
		}))
		q.slots.total = minSlots + 1 // as after a crowd; the slot is gone with the batch that takes promptReply
		if took, err := ask(q, int64(slow), time.Minute); err != nil || took != slow {
			t.Errorf("%v after %v", err, took)
		}
		var group sync.WaitGroup
		for _, takes := range []time.Duration{slow, slow, slow, slow, fast} {
			group.Go(func() { _, _ = ask(q, int64(takes), time.Minute) })
			synctest.Wait()
		}
		if took, err := ask(q, 0, time.Minute); err != nil || took > 2*fast+lostAfter {
			t.Errorf("%v after %v, want an answer after at most %v", err, took, 2*fast+lostAfter)
		}
		group.Wait()
		checkEmpty(t, q)
	})
}

// TestNotLostEarly: however short the round trip is, no batch is presumed lost before lostAfter, also if the timer runs
// before.
func TestNotLostEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches gauge
		q := New(byWorkers(func(batch []*testCall) bool {
			batches.enter()
			defer batches.leave()
			if batch[0].Request < 0 {
				time.Sleep(lostAfter - 1)
			}
			return echo(batch)
		}))
		time.Sleep(time.Second) // since the zero time, when no batch was lost
		serveEach(t, q, 1)
		var group sync.WaitGroup
		for range minSlots {
			group.Go(func() { _, _ = ask(q, -1, time.Minute) })
			synctest.Wait()
		}
		group.Go(func() { _, _ = ask(q, 1, time.Minute) })
		if _, err := ask(q, 1, lostAfter/2); !errors.Is(err, errLate) { // which makes the timer run
			t.Errorf("%v, want %v", err, errLate)
		}
		group.Wait()
		if most := batches.restart(); most > minSlots {
			t.Errorf("%d batches were under way, want at most %d", most, minSlots)
		}
		checkEmpty(t, q)
	})
}

// TestStall: a server that answers nothing for a while gets one batch more every lostAfter, whatever waits. When it
// answers again, it gets no more than it can take.
func TestStall(t *testing.T) {
	const stall = time.Second
	synctest.Test(t, func(t *testing.T) {
		var batches gauge
		start := time.Now()
		q := New(byWorkers(func(batch []*testCall) bool {
			batches.enter()
			defer batches.leave()
			time.Sleep(max(time.Millisecond, time.Until(start.Add(stall))))
			return echo(batch)
		}))
		if n := offer(q, 2, 10_000, 10*stall); n != 10_000 {
			t.Errorf("%d calls were answered, want 10000", n)
		}
		if most, want := batches.restart(), minSlots+int(stall/lostAfter); most > want {
			t.Errorf("%d batches were under way, want at most %d", most, want)
		}
		checkEmpty(t, q)
	})
}

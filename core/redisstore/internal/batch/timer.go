package batch

import (
	"slices"
	"time"
)

// timerPause is the least time between two runs of the timer: with many calls a run takes a while. Calls end up to as
// much later than their deadlines.
const timerPause = 250 * time.Microsecond

// timer runs Queue.check when a deadline has passed, a batch may be lost, or a worker has been idle for long. The
// queue's lock guards it.
type timer struct {
	timer *time.Timer
	at    time.Time // when it fires; zero: it is stopped
}

// wakeTimerBy makes the timer fire at a time, unless it fires before. The zero time is none. q.mu must be held.
func (q *Queue[Q, A]) wakeTimerBy(at time.Time) {
	t := &q.timer
	if at.IsZero() || !t.at.IsZero() && !at.Before(t.at) {
		return
	}
	t.at = at
	if t.timer == nil {
		t.timer = time.AfterFunc(time.Until(at), q.check)
	} else {
		t.timer.Reset(time.Until(at))
	}
}

// check ends the calls that are past their deadlines, frees the slots of lost batches, and ends workers that are not
// needed.
func (q *Queue[Q, A]) check() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.timer.at = time.Time{}
	next := expire(q.waiting, q.config.ErrQueued, now, time.Time{})
	// With more calls than the server can serve, fill never reaches the oldest.
	q.waiting = slices.DeleteFunc(q.waiting, func(c *Call[Q, A]) bool { return c.settled.Load() })
	for _, b := range q.inFlight {
		next = expire(b.calls, q.config.ErrLate, now, next)
		switch at := q.slots.lostAt(b.sentAt); {
		case b.lost:
		case at.After(now):
			// The round trip may turn out to be shorter meanwhile.
			next = minTime(next, now.Add(min(at.Sub(now), lostAfter)))
		default:
			b.lost, q.slots.lastLost = true, now
			q.slots.used--
			q.dispatch()
		}
	}
	if next = minTime(next, q.workers.retire(now)); next.IsZero() {
		return
	}
	if earliest := now.Add(timerPause); next.Before(earliest) {
		next = earliest
	}
	q.wakeTimerBy(next)
}

// expire ends the calls that are past their deadlines, with err. It returns the first deadline of the others, or next
// if next is earlier. The queue's lock must be held.
func expire[Q, A any](calls []*Call[Q, A], err error, now, next time.Time) time.Time {
	for _, c := range calls {
		if c.expired(now) {
			c.Answer(*new(A), err)
		} else {
			next = minTime(next, c.Deadline)
		}
	}
	return next
}

// minTime returns the earlier of two times. A zero time is none: then it returns the other.
func minTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

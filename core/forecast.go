package core

import (
	"math/rand/v2"
	"time"
)

// forecast is what the answers of a store say of the requests to come for one key. The
// zero value knows nothing, so that one request asks, and the others wait for its answer.
//
// A round is a time in which at least one request is under way. The room that an answer
// leaves is shared out when its round is over, since the answer knows nothing of requests
// that the store decided later.
type forecast struct {
	// Until opens, a cost of at least closed cannot pass. jitter is how much later this
	// process asks.
	opens  time.Time
	closed int64
	jitter time.Duration

	room   int64     // units that may be asked for beside the requests under way
	left   int64     // room when the round is over
	newest time.Time // the latest time of the round's decisions, by the store's clock

	// drop is the time at which the estimate of a counter falls by one, if it is known.
	// before is drop as it was when the round began.
	drop, before time.Time

	// The policy admits without counting: room and burst are requests, not units.
	uncounted bool
	burst     int64

	// contested is above 0 while another process seems to wait for the key: this one was
	// refused a cost that was to pass. After an admission it then lets the other go first.
	contested int

	failing error // what the store fails with; nil if the newest answer is the store's
	tries   int   // how many tries in a row have failed
}

const (
	// A waiter comes back later than it must by up to a part of the wait, so that the
	// processes that wait for one key do not ask at the same instant. What has come back
	// meanwhile passes together with it.
	jitterPart = 50
	maxJitter  = 100 * time.Millisecond

	// So many rounds after the last sign of another process, it is taken to have left.
	maxContested = 3

	// The time between two tries while the store cannot be asked: at first, and at most.
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Second

	// While a policy admits uncounted, so many times as many requests go on in each round.
	burstGrowth = 4
	maxBurst    = 1 << 20
)

// until returns for how long w must not ask, 0 or less if it may.
func (f *forecast) until(w *waiter, now time.Time) time.Duration {
	if w.cost < f.closed {
		return 0
	}
	at := f.opens.Add(f.jitter)
	if w.hasDeadline && !at.Before(w.deadline) {
		at = f.opens
	}
	return at.Sub(now)
}

// hasRoom reports whether a request of the given cost may join the requests under way.
func (f *forecast) hasRoom(cost int64, asking int) bool {
	if f.uncounted {
		return f.room > 0
	}
	return f.room >= cost && asking < maxAsking
}

// startRound begins a round with its first request.
func (f *forecast) startRound() {
	f.left, f.newest, f.before = 0, time.Time{}, f.drop
}

// use takes the room that a request needs.
func (f *forecast) use(cost int64) {
	if f.uncounted {
		cost = 1
	}
	f.room = max(0, f.room-cost)
}

// endRound shares out what the answers of the round have left.
func (f *forecast) endRound() {
	if f.uncounted {
		f.burst = min(max(1, f.burst)*burstGrowth, maxBurst)
		f.left = f.burst
	}
	f.room = f.left
	f.contested = max(0, f.contested-1)
}

// learn takes in the answer to a request of the given cost, which has come now.
func (f *forecast) learn(d *Decision, cost int64, now time.Time) {
	switch {
	case d.Source == FromPolicy && d.Allowed:
		f.opens, f.uncounted = time.Time{}, true
		return
	case !d.Allowed && (d.RetryAfter <= 0 || d.RetryAfter == Never):
		f.backOff(d.Err, now)
		return
	}
	if f.uncounted || f.failing != nil {
		*f = forecast{newest: f.newest}
	}
	f.tries = 0
	if d.At.Before(f.newest) || d.At.Equal(f.newest) && d.Allowed && d.Remaining+1 >= f.closed {
		return // the store has decided another request of the round later
	}
	f.newest = d.At
	if !d.Allowed && cost <= f.closed {
		f.contested = maxContested
	}
	if d.Allowed {
		f.closed, f.left = d.Remaining+1, d.Remaining
		f.opens = f.nextUnit(d, now)
	} else {
		f.closed, f.left, f.room = cost, 0, 0
		f.opens = now.Add(d.RetryAfter)
		f.drop = f.opens
	}
	f.jitter = f.drawJitter(min(f.opens.Sub(now)/jitterPart, maxJitter), d.Allowed)
}

// drawJitter returns by how much later than it could this process asks: up to most, and
// between two and four times as much if another process is to go first.
func (f *forecast) drawJitter(most time.Duration, admitted bool) time.Duration {
	if admitted && f.contested > 0 {
		return 2*most + randomUpTo(2*most)
	}
	return randomUpTo(most)
}

// nextUnit returns the earliest time at which more than the Remaining of an admission can
// pass. A log says when its oldest unit leaves. The estimate of a counter falls by one
// Requests times in a window at most, so that the time of the last fall tells.
func (f *forecast) nextUnit(d *Decision, now time.Time) time.Time {
	if d.Limit.Algorithm.Exact() {
		return now.Add(d.ResetAfter)
	}
	if f.before.IsZero() || d.Limit.Requests == 0 {
		return time.Time{}
	}
	f.drop = f.before.Add(d.Limit.Window / time.Duration(d.Limit.Requests))
	return f.drop
}

// backOff closes the key to all until the next try. err is what the store fails with.
func (f *forecast) backOff(err error, now time.Time) {
	if f.failing != nil && f.opens.After(now) {
		return // another request of the round has failed too
	}
	wait := min(minRetry<<min(f.tries, 10), maxRetry)
	wait = wait/2 + randomUpTo(wait/2)
	*f = forecast{opens: now.Add(wait), failing: err, tries: f.tries + 1, newest: f.newest}
}

// randomUpTo returns a random time from 0 to d; 0 if d is not positive.
func randomUpTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d + 1)
}

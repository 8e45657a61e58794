package core

import (
	"math"
	"time"
)

// reckoning is a counter as far as its answers tell. An admission says how much the two fixed
// windows hold together, but not which of them holds it, and so not when the next request passes.
// Most of that follows from what came before: the units that these answers have admitted are in
// the newer window. Where others count for the same key, the window before may hold less than is
// reckoned.
type reckoning struct {
	limit             Limit     // the counter's; zero while nothing is known
	end               time.Time // of the newer window, by the store
	ends              time.Time // the same, by this process
	own               int64     // units that were admitted in it
	previous, current float64   // the most that the window before can hold, and what is left for the newer
	remaining, left   float64   // by the newest answer: units, and the part of the newer window that is to come
}

// learn takes in an answer, which came at now, to a request of the given cost.
func (r *reckoning) learn(d *Decision, cost int64, now time.Time) {
	n, w := float64(d.Limit.Requests), float64(d.Limit.Window)
	if end := d.At.Add(d.ResetAfter); r.limit != d.Limit || !r.end.Equal(end) {
		*r = reckoning{limit: d.Limit, end: end, previous: n}
	}
	if d.Allowed {
		r.own += cost
	}
	r.ends, r.remaining, r.left = now.Add(d.ResetAfter), float64(d.Remaining), float64(d.ResetAfter)/w
	used := n - r.remaining
	r.previous = max(0, min(r.previous, math.Ceil((used-float64(r.own)+1)/r.left)-1))
	r.current = max(0, used-math.Floor(r.previous*r.left))
	if left := float64(d.ResetAfter-d.RetryAfter) / w; !d.Allowed && left > 0 {
		// When the request passes, the previous window weighs a whole number of units.
		r.previous = math.Round(max(1, math.Round(r.previous*left)) / left)
	}
}

// opens returns when a request of the given cost passes, or a time that is later by at most two
// units' share of the window.
func (r *reckoning) opens(cost int64) time.Time {
	n, c, w := float64(r.limit.Requests), float64(cost), float64(r.limit.Window)
	room := n - c + 1 // the request passes when less than this counts
	after := max(0, 1-room/r.current)
	if room > r.current {
		after = max(-1, min((r.current-room)/r.previous, (c-r.remaining-1)/r.previous+2/n-r.left))
	}
	return r.ends.Add(time.Duration(w*after) + time.Microsecond)
}

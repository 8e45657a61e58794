package statespace

import "github.com/sashlimit/sash/core"

func init() { definitions[core.SlidingCounter] = counter{} }

// counter counts the units of this fixed window, and the units of the window before, by the part of this window that is
// left. A counter still begins where it began when its units are given back.
type counter struct{ apart }

func (counter) begun(l Limit, newest int64) int64 { return newest / l.W * l.W }

func (counter) used(l Limit, past []Unit, _, stamp int64) (used int64) {
	before := int64(0)
	for _, u := range past {
		switch u.At / l.W {
		case stamp / l.W:
			used += u.N
		case stamp/l.W - 1:
			before += u.N
		}
	}
	return used + before*(l.W-stamp%l.W)/l.W
}

func (counter) counts(l Limit, past []Unit, at, now int64) bool {
	return (at/l.W+2)*l.W > max(now, l.begun(past))
}

func (counter) resetAfter(l Limit, _ []Unit, now, stamp, _ int64) int64 {
	return (stamp/l.W+1)*l.W - now
}

// most is 2*N, and more after charges: the fixed window before may hold more than N by them, all of it at its end.
func (counter) most(l Limit, past []Unit, end int64) int64 {
	before := int64(0)
	for _, u := range past {
		if u.At/l.W == end/l.W-1 {
			before += u.N
		}
	}
	return l.N + max(l.N, before)
}

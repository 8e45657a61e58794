package statespace

import (
	"slices"

	"github.com/sashlimit/sash/core"
)

func init() { definitions[core.SlidingLog] = log{} }

// log counts a unit for a window.
type log struct{ apart }

func (log) begun(_ Limit, newest int64) int64 { return newest }

func (log) used(l Limit, past []Unit, now, _ int64) (used int64) {
	for _, u := range past {
		if u.At > now-l.W {
			used += u.N
		}
	}
	return used
}

func (log) counts(l Limit, _ []Unit, at, now int64) bool { return at > now-l.W }

// giveBack leaves no units of 0.
func (d log) giveBack(l Limit, past []Unit, at, cost, units int64) ([]Unit, int64) {
	left, missing := d.apart.giveBack(l, past, at, cost, units)
	return slices.DeleteFunc(left, func(u Unit) bool { return u.N == 0 }), missing
}

func (log) resetAfter(l Limit, past []Unit, now, stamp, used int64) int64 {
	return l.first(past, now, stamp, func(later int64) bool { return later < used })
}

func (log) most(l Limit, _ []Unit, _ int64) int64 { return l.N }

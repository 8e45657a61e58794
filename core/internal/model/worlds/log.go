package worlds

import (
	"slices"

	"github.com/sashlimit/sash/core"
)

func init() { definitions[core.SlidingLog] = log{} }

// log counts a unit for a window.
type log struct{}

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

func (log) admit(l Limit, past []Unit, now, at, n int64) []Unit {
	return l.admit(past, now, at, n, func(a, b int64) bool { return a == b })
}

func (log) giveBack(_ Limit, past []Unit, at, units int64) ([]Unit, int64) {
	left, missing := giveBack(past, at, units, func(a, b int64) bool { return a == b })
	return some(left), missing
}

// some returns the units of a past that are not 0.
func some(past []Unit) []Unit { return slices.DeleteFunc(past, func(u Unit) bool { return u.N == 0 }) }

func (log) resetAfter(l Limit, past []Unit, now, stamp, used int64) int64 {
	return l.first(past, now, stamp, func(later int64) bool { return later < used })
}

func (log) most(l Limit, _ []Unit, _ int64) int64 { return l.N }

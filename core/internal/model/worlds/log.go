package worlds

import (
	"slices"

	"github.com/sashlimit/sash/core"
)

func init() { definitions[core.SlidingLog] = log{} }

// log counts a unit for a window.
type log struct{}

func (log) together(_ Limit, a, b int64) bool { return a == b }

func (log) begun(_ Limit, newest int64) int64 { return newest }

func (log) used(l Limit, past []Unit, now, _ int64) (used int64) {
	for _, u := range past {
		if u.At > now-l.W {
			used += u.N
		}
	}
	return used
}

func (log) counts(l Limit, at, now, _ int64) bool { return at > now-l.W }

func (log) resetAfter(l Limit, past []Unit, now, stamp, used int64) int64 {
	return l.first(past, now, stamp, func(later int64) bool { return later < used })
}

func (log) returned(past []Unit) []Unit {
	return slices.DeleteFunc(past, func(u Unit) bool { return u.N == 0 })
}

func (log) most(l Limit) int64 { return l.N }

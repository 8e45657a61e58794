package statespace

import (
	"slices"

	"github.com/sashlimit/sash/core"
)

func init() { definitions[core.SlidingLog] = log{} }

// log counts a unit for a window.
type log struct{ unitLog }

func (log) minStamp(_ Limit, newest int64) int64 { return newest }

func (log) used(l Limit, entries []Unit, now, _ int64) (used int64) {
	for _, u := range entries {
		if u.At > now-l.W {
			used += u.N
		}
	}
	return used
}

func (log) counts(l Limit, _ []Unit, at, now int64) bool { return at > now-l.W }

// takeBack drops entries of 0 units.
func (d log) takeBack(l Limit, entries []Unit, at, cost, units int64) ([]Unit, int64) {
	left, missing := d.unitLog.takeBack(l, entries, at, cost, units)
	return slices.DeleteFunc(left, func(u Unit) bool { return u.N == 0 }), missing
}

func (log) resetAfter(l Limit, entries []Unit, now, stamp, used int64) int64 {
	return l.timeUntil(entries, now, stamp, func(later int64) bool { return later < used })
}

func (log) maxUsed(l Limit, _ []Unit, _ int64) int64 { return l.N }

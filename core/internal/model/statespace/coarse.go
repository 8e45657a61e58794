package statespace

import "github.com/sashlimit/sash/core"

func init() { definitions[core.CoarseLog] = coarse{} }

// coarse counts a unit until the last moment of its slot is a window old.
type coarse struct{ log }

func slot(l Limit) int64 { return (l.W + 59) / 60 }

func end(l Limit, at int64) int64 { return (at/slot(l)+1)*slot(l) - 1 }

func (coarse) minStamp(l Limit, newest int64) int64 { return newest / slot(l) * slot(l) }

func (coarse) used(l Limit, entries []Unit, now, _ int64) (used int64) {
	for _, u := range entries {
		if end(l, u.At) > now-l.W {
			used += u.N
		}
	}
	return used
}

func (coarse) counts(l Limit, _ []Unit, at, now int64) bool { return end(l, at) > now-l.W }

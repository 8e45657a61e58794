package window

// ReturnDepth bounds a Return. It takes units of an entry only if at most ReturnDepth entries
// have newer stamps, and at most ReturnDepth newer entries have the same stamp.
const ReturnDepth = 1000

// Return takes back units that are not older than a window, as [Count.Return] does. An
// entry that becomes empty is removed: the later ones move down.
func (l *Log) Return(at, units int64) (returned int64) {
	end := search(0, l.entries, func(i uint32) bool { return l.stamp(i) > at })
	begin, held := end, int64(0) // the entries from begin to end hold the units
	for begin > 0 && held < units && end-begin <= ReturnDepth && l.stamp(begin-1) == at {
		begin--
		held = l.total(end-1) - l.before(begin)
	}
	if begin == end || l.entries-end > ReturnDepth {
		return 0
	}
	before, kept, newest := l.before(begin), begin, int64(0)
	if begin > 0 {
		newest = l.stamp(begin - 1)
	}
	for i := begin; i < l.entries; i++ {
		stamp, total := l.stamp(i), l.total(i)
		own := total - before
		before = total
		if stamp == at {
			taken := min(own, units-returned)
			own, returned = own-taken, returned+taken
		}
		if own > 0 {
			l.put(kept, stamp, total-returned)
			kept, newest = kept+1, stamp
		}
	}
	l.entries, l.last = kept, newest
	l.pairs = l.pairs && kept > 0
	if l.pairs {
		l.units = Round(l.total(kept - 1))
	}
	return returned
}

func (l *Log) giveBack(_ Limit, at, _, units int64) int64 { return l.Return(at, units) }

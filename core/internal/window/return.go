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
	before, kept := l.before(begin), begin
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
			kept++
		}
	}
	l.shorten(begin, kept)
	return returned
}

// put writes entry i into the ring, with the running total that includes it. shorten
// writes the oldest and the newest stamp of the Log.
func (l *Log) put(i uint32, stamp, total int64) {
	if l.words == 0 { // the newer of two entries is left
		l.first = stamp
		return
	}
	i = l.at(i)
	if !l.pairs {
		l.ring()[i] = stamp
		return
	}
	l.ring()[2*i], l.ring()[2*i+1] = stamp, *l.base()+total
}

// shorten keeps only the given number of oldest entries. The caller has put the entries
// from changed on.
func (l *Log) shorten(changed, entries uint32) {
	l.entries = entries
	if entries == 0 { // no later request has to wait for anything
		l.last, l.pairs = 0, false
		return
	}
	if l.words == 0 {
		l.last = l.first
		return
	}
	if changed == 0 {
		l.first = l.inner(0)
	}
	l.last = l.inner(entries - 1)
	if l.pairs {
		l.units = Round(l.total(entries - 1))
	}
}

func (l *Log) giveBack(_ Limit, at, _, _, units int64) int64 { return l.Return(at, units) }

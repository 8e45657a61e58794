package window

// ReturnDepth bounds a Return. It takes units of an entry only if at most ReturnDepth entries
// have newer stamps, and at most ReturnDepth newer entries have the same stamp.
const ReturnDepth = 1000

// Return takes back units that are not older than a window, as [Count.Return] does. It
// moves the entries that follow into the place of those that become empty.
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

// put writes entry i into the ring, with the running total up to and with it. The oldest
// and the newest stamp stand in the Log too; see shorten.
func (l *Log) put(i uint32, stamp, total int64) {
	if l.words == 0 { // of two entries the newer is left
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

// shorten drops all entries from the given number on. Those from changed on have been
// put.
func (l *Log) shorten(changed, entries uint32) {
	l.entries = entries
	if entries == 0 { // nothing is counted that a later request would have to wait for
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

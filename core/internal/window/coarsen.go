package window

// Since returns the units that were counted after cutoff.
func (l *Log) Since(cutoff int64) int64 {
	expired := l.expired(cutoff)
	switch {
	case expired == l.Len:
		return 0
	case expired == 0:
		return l.total(l.Len - 1)
	}
	return l.total(l.Len-1) - l.total(expired-1)
}

// leastCoarsened is the least number of entries that are worth merging: the
// ring of fewer would hardly become shorter.
const leastCoarsened = 32

// Coarsen merges neighbouring entries, so that the ring takes about half of its
// words, and reports whether it did. A merged entry holds the units of all and
// the stamp of the newest: units count until later than without the merging,
// never until earlier. The merged entries hold about as many units each, so that
// a log which is coarsened again and again remains as fine for old units as for
// new ones.
func (l *Log) Coarsen() bool {
	if l.Len < leastCoarsened {
		return false
	}
	entries := l.Len / 4 // a pair takes two words
	if l.Pairs {
		entries = l.Len / 2
	}
	// Two merged entries in a row hold more than most, so there are not more of
	// them than entries, and one.
	most := 2 * l.total(l.Len-1) / int64(entries)
	var coarse Log
	coarse.move(words(entries+1, true), true)
	before := int64(0)
	for i := range l.Len {
		if i+1 < l.Len && l.total(i+1)-before <= most {
			continue
		}
		coarse.Push(l.stamp(i), l.total(i)-before)
		before = l.total(i)
	}
	coarse.Spare = l.Spare
	*l = coarse
	return true
}

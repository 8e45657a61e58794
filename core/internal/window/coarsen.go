package window

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
	if l.entries < leastCoarsened {
		return false
	}
	entries := l.entries / 4 // a pair takes two words
	if l.pairs {
		entries = l.entries / 2
	}
	// Two merged entries in a row hold more than most, so there are not more of
	// them than entries, and one: the ring has room for these and some more.
	most := 2 * l.total(l.entries-1) / int64(entries)
	var coarse Log
	coarse.move(words(entries, true), true)
	before := int64(0)
	for i := range l.entries {
		if i+1 < l.entries && l.total(i+1)-before <= most {
			continue
		}
		coarse.Push(l.stamp(i), l.total(i)-before)
		before = l.total(i)
	}
	*l = coarse
	return true
}

func (l *Log) coarsen() { l.Coarsen() }

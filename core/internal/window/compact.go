package window

// minCompacted is the least number of entries that are merged. The ring of fewer would hardly become shorter.
const minCompacted = 32

// compact merges neighbouring entries, so that the ring takes about half of its words. A merged entry holds the units
// of all and the stamp of the newest, so units may expire later, never earlier. The merged entries hold about equal
// numbers of units: a log that is compacted many times remains as precise for old units as for new ones.
func (l *Log) compact() {
	if l.entries < minCompacted {
		return
	}
	entries := l.entries / 4 // a pair takes two words
	if l.pairs {
		entries = l.entries / 2
	}
	// Two merged entries in a row hold more than most units, so there are at most
	// entries+1 of them. The ring has room for that and a few more.
	most := 2 * l.total(l.entries-1) / int64(entries)
	var merged Log
	merged.move(words(entries, true), true)
	before := int64(0)
	for i := range l.entries {
		if i+1 < l.entries && l.total(i+1)-before <= most {
			continue
		}
		merged.Push(l.stamp(i), l.total(i)-before)
		before = l.total(i)
	}
	*l = merged
}

package memstore

// Stats holds the numbers of a [Store]. The events are counted since the store
// was made, and their numbers never decrease; the other numbers are as of now.
//
// A store that is large enough has few Evictions, and no other events. Where there
// are some, [WithMaxBytes] should give it more.
type Stats struct {
	Bytes    int64 // held now, all tables counted
	MaxBytes int64 // the bound of Bytes
	Slots    int64 // clients that are held now; a client under three limits counts three times
	Limits   int64 // limits of the rules that were bound, each counted once; they are kept for good

	// Evictions are slots that were removed for others while they counted something.
	// The sketches have their units; see the documentation of the package.
	Evictions uint64

	// SketchOnly are requests that were admitted and got no slot: the first of each
	// client in a flood of new keys. The sketches count them.
	SketchOnly uint64

	// RefusedEvicted are requests of clients without a slot that were refused by the
	// client's own entry in the sketches: maybe early, by up to a window.
	RefusedEvicted uint64

	// RefusedNewKeys are requests of clients with neither a slot nor an entry in the
	// sketches that were refused for the units of other clients there: mostly early.
	RefusedNewKeys uint64

	// Full are decisions that ended with [core.ErrStoreFull].
	Full uint64
}

// events counts the events of a shard for [Stats]. A client with a slot is never counted in refusedEvicted,
// refusedNewKeys or sketchOnly for that limit. Its ring may still evict others, or find the store full.
type events struct {
	evictions, sketchOnly, refusedEvicted, refusedNewKeys, full uint64
}

// Stats returns what the store holds and what has happened in it. For a store of the
// default size it takes about 5 µs, so a call every second is fine: it does not look
// at single clients. It locks one part of the store after the other, so the numbers are
// of slightly different times. A store that is nil has zero Stats.
func (s *Store) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	stats := Stats{Bytes: s.max - s.common.Load(), MaxBytes: s.max}
	s.rules.mu.Lock()
	stats.Limits = int64(len(s.rules.idents))
	s.rules.mu.Unlock()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		stats.Bytes -= max(0, s.share-sh.own) // what is unused
		if sh.sketch == nil {
			stats.Bytes -= s.sketchBytes
		}
		stats.Slots += int64(sh.n)
		stats.Evictions += sh.events.evictions
		stats.SketchOnly += sh.events.sketchOnly
		stats.RefusedEvicted += sh.events.refusedEvicted
		stats.RefusedNewKeys += sh.events.refusedNewKeys
		stats.Full += sh.events.full
		sh.mu.Unlock()
	}
	return stats
}

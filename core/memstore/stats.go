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

	// Evictions are slots that were given up for others while they counted something.
	// What they counted stands in the sketches; see the documentation of the package.
	Evictions uint64

	// SketchOnly are requests that were admitted and got no slot: the first ones of
	// clients in a flood of newcomers. The sketches count them.
	SketchOnly uint64

	// RefusedEvicted are requests of clients that have no slot, refused for what the
	// sketches say of the client itself: maybe early, by up to a window.
	RefusedEvicted uint64

	// RefusedNewcomers are requests of clients that neither have a slot nor an entry
	// of their own in the sketches, refused for what others have counted there: most
	// of them early.
	RefusedNewcomers uint64

	// Full are decisions that ended with [core.ErrStoreFull].
	Full uint64
}

// events counts the events of a shard for [Stats]. Nothing of it happens in a decision
// about a client that has a slot.
type events struct {
	evictions, sketchOnly, refusedEvicted, refusedNewcomers, full uint64
}

// Stats returns what the store holds and what has happened in it. For a store of the
// default size it takes about 5 µs, so it may be asked every second: it does not look
// at single clients. It locks one part of the store after the other, so the numbers are
// of slightly different times. A store that is nil has zero Stats.
func (s *Store) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	stats := Stats{Bytes: s.max - s.common.Load(), MaxBytes: s.max, Limits: s.rules.count()}
	for i := range s.shards {
		s.shards[i].addTo(&stats)
	}
	return stats
}

// addTo adds the numbers of a shard, and takes from the bytes what it has and does not use. Other
// than the shard's other methods it takes sh.mu itself.
func (sh *shard) addTo(stats *Stats) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	stats.Bytes -= max(0, sh.store.share-sh.own)
	if sh.sketch == nil {
		stats.Bytes -= sh.store.sketchBytes
	}
	stats.Slots += int64(sh.n)
	stats.Evictions += sh.events.evictions
	stats.SketchOnly += sh.events.sketchOnly
	stats.RefusedEvicted += sh.events.refusedEvicted
	stats.RefusedNewcomers += sh.events.refusedNewcomers
	stats.Full += sh.events.full
}

// count returns how many limits have been bound.
func (r *rules) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.idents))
}

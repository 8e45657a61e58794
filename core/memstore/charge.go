package memstore

// charge counts cost at every limit, and reports whether there is memory for all
// of it. A client without a slot gets one, with the past that the sketch says.
func (c *ledger) charge(sh *shard, r *request, all []held) bool {
	if c.chargeInPlace(r, all) {
		return true
	}
	var lacks need
	for i := range all {
		if all[i].slot == nil {
			lacks.slots++
		}
		if ring, growth := all[i].growth(&c.limits[i].bound, r); ring+growth <= c.store.largeRing {
			lacks.rings += growth
		}
	}
	if lacks != (need{}) {
		if !sh.grow(lacks) {
			if strange(all) && sh.floodedBy(c, r) {
				sh.events.sketchOnly++
				c.remember(sh, r, all)
				return true
			}
			if !sh.makeRoom(c, r, lacks) {
				sh.events.full++
				return false
			}
		}
		for i := range all { // slots have moved
			if all[i].slot != nil {
				all[i].slot = sh.find(r.hash, c.limits[i].ident)
			}
		}
	}
	for i := range all {
		c.limits[i].charge(sh, r, &all[i])
	}
	return true
}

// chargeInPlace counts cost if that takes no memory at any limit, and reports whether
// it has.
func (c *ledger) chargeInPlace(r *request, all []held) bool {
	for i := range all {
		if all[i].slot == nil || all[i].slot.count.Prepare(c.limits[i].bound.Limit, r.now, r.cost) > 0 {
			return false
		}
	}
	for i := range all {
		all[i].slot.count.Add(c.limits[i].bound.Limit, r.now, r.cost)
	}
	return true
}

// remember counts cost in the sketch alone.
func (c *ledger) remember(sh *shard, r *request, all []held) {
	for i := range all {
		l, p := &c.limits[i], all[i].past.EvictedCount
		p.Add(&l.bound.Bound, r.now, r.cost)
		sh.remember(&l.bound, r.hash, l.ident, p, r.now)
	}
}

// strange reports whether the shard knows a client under no limit.
func strange(all []held) bool {
	for i := range all {
		if all[i].slot != nil || all[i].past.known {
			return false
		}
	}
	return true
}

// charge counts cost at one limit, for which there is a slot. Short rings have
// the memory to grow, too. A long one takes what is free; if that is not
// enough, its entries are merged.
func (l *limit) charge(sh *shard, r *request, known *held) {
	ring, growth := known.growth(&l.bound, r)
	s := known.slot
	if s == nil {
		s = sh.insert(r.hash, l.ident, l.number)
		sh.due += sweepDue/sweepSlots - 1 // tick counts the rest
		if !known.past.IsZero() {
			s.mark(hides)
			s.count.Restore(&l.bound.Bound, known.past.EvictedCount, r.now)
		}
	} else if ring+growth > sh.store.largeRing && growth > 0 && !sh.resizeRing(ring, ring+growth) {
		s.count.Compact(l.bound.Limit)
		growth = ringBytes(&s.count) - ring
		sh.resizeRing(ring, ring+growth)
	}
	s.count.Add(l.bound.Limit, r.now, r.cost)
	if growth != 0 {
		sh.resizeRing(ring+growth, ringBytes(&s.count))
	}
}

// growth drops from the count of a client what has expired. It returns what the ring
// takes, and bounds what it must take more for a charge.
func (k *held) growth(b *bound, r *request) (ring, growth int64) {
	var words int
	if k.slot == nil {
		words = k.past.Words(b.Algorithm, r.cost)
	} else {
		ring = ringBytes(&k.slot.count)
		words = k.slot.count.Prepare(b.Limit, r.now, r.cost)
	}
	if words == 0 {
		return ring, 0
	}
	return ring, ringBound(words) - ring
}

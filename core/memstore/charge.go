package memstore

// charge counts cost at every limit, and reports whether there is memory for all
// of it. A client without a slot gets one, with the past that the sketch says.
func (c *counts) charge(sh *shard, r *request, all []held) bool {
	var lacks need
	for i := range all {
		b, s := &c.limits[i].bound, all[i].slot
		if s == nil {
			lacks.slots++
		} else if b.isLog {
			s.log.Expire(r.now - b.W)
		}
		if ring, growth := all[i].growth(b, r.cost); ring+growth <= c.store.largeRing {
			lacks.rings += growth
		}
	}
	if lacks != (need{}) && !sh.grow(lacks) {
		if strange(all) && sh.floodedBy(c, r) {
			c.remember(sh, r, all)
			return true
		}
		if !sh.makeRoom(c, r, lacks) {
			return false
		}
		for i := range all { // others have moved
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

// remember counts cost in the sketch alone: in the epoch in which pastOf would
// count it, or the client would have it twice when its slot is evicted.
func (c *counts) remember(sh *shard, r *request, all []held) {
	for i := range all {
		l, p, at := &c.limits[i], all[i].past, r.stamp
		if !l.bound.isLog {
			at -= at % l.bound.W
		}
		switch epoch := l.bound.epoch(at); {
		case epoch > p.epoch:
			p.epoch, p.older, p.newer = epoch, p.older+p.newer, r.cost
		case epoch == p.epoch:
			p.newer += r.cost
		default:
			p.older += r.cost
		}
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
	ring, growth := known.growth(&l.bound, r.cost)
	s := known.slot
	if s == nil {
		s = sh.insert(r.hash, l.ident, l.number)
		known.past.restore(&l.bound, s, r)
	} else if ring+growth > sh.store.largeRing && growth > 0 && !sh.resizeRing(ring, ring+growth) {
		s.log.Coarsen()
		growth = ringBytes(&s.log) - ring
		sh.resizeRing(ring, ring+growth)
	}
	s.count(&l.bound, r.stamp, r.cost)
	if growth != 0 {
		sh.resizeRing(ring+growth, ringBytes(&s.log))
	}
}

// growth returns what the ring of a client takes, and bounds what it must take
// more for a charge.
func (k *held) growth(b *bound, cost int64) (ring, growth int64) {
	switch {
	case !b.isLog:
		return 0, 0
	case k.slot == nil:
		if k.past.none() && cost == 1 {
			return 0, 0
		}
		return 0, newRing
	}
	ring = ringBytes(&k.slot.log)
	if k.slot.log.Fits(cost) {
		return ring, 0
	}
	return ring, ringGrowth(&k.slot.log, cost)
}

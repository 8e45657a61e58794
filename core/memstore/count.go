package memstore

import "slices"

// count counts cost at every limit, and reports whether there is memory for it. A
// client without a slot gets one, with the units that the sketch estimates.
func (c *ledger) count(sh *shard, r *request, all []clientState) bool {
	if c.countInPlace(r, all) {
		return true
	}
	var lack need
	for i := range all {
		if all[i].slot == nil {
			lack.slots++
		}
		if ring, growth := all[i].growth(&c.limits[i].info, r); ring+growth <= c.store.largeRing {
			lack.rings += growth
		}
	}
	if lack != (need{}) {
		if !sh.grow(lack) {
			if isNewKey(all) && sh.isFlooded(c, r) {
				sh.events.sketchOnly++
				c.record(sh, r, all)
				return true
			}
			if !sh.makeRoom(c, r, lack) {
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
		c.limits[i].count(sh, r, &all[i])
	}
	return true
}

// countInPlace counts cost if no limit needs memory for it, and reports whether it
// did.
func (c *ledger) countInPlace(r *request, all []clientState) bool {
	for i := range all {
		if all[i].slot == nil || all[i].slot.count.Prepare(c.limits[i].info.Limit, r.now, r.cost) > 0 {
			return false
		}
	}
	for i := range all {
		all[i].slot.count.Add(c.limits[i].info.Limit, r.now, r.cost)
	}
	return true
}

// record counts cost in the sketch alone.
func (c *ledger) record(sh *shard, r *request, all []clientState) {
	for i := range all {
		l, p := &c.limits[i], all[i].estimate.EvictedCount
		p.Add(&l.info.Bound, r.now, r.cost)
		sh.record(&l.info, r.hash, l.ident, p, r.now)
	}
}

// isNewKey reports whether the shard has neither a slot nor an entry for a client.
func isNewKey(all []clientState) bool {
	return !slices.ContainsFunc(all, func(one clientState) bool { return one.slot != nil || one.estimate.found })
}

// count counts cost at one limit. There is memory for the slot, and for a short
// ring to grow. A long ring takes free memory; if that is not enough, its entries
// are merged.
func (l *limit) count(sh *shard, r *request, client *clientState) {
	ring, growth := client.growth(&l.info, r)
	s := client.slot
	if s == nil {
		s = sh.insert(r.hash, l.ident, l.infoNumber)
		sh.due += sweepDue/sweepSlots - 1 // tick counts the rest
		if !client.estimate.IsZero() {
			s.mark(overrides)
			s.count.Restore(&l.info.Bound, client.estimate.EvictedCount, r.now)
		}
	} else if ring+growth > sh.store.largeRing && !sh.resizeRing(ring, ring+growth) {
		s.count.Compact(l.info.Limit)
		growth = ringBytes(&s.count) - ring
		sh.resizeRing(ring, ring+growth)
	}
	s.count.Add(l.info.Limit, r.now, r.cost)
	sh.resizeRing(ring+growth, ringBytes(&s.count))
}

// growth drops expired units of a client. It returns the bytes of the ring, and an
// upper bound of the bytes that it needs more to count the request.
func (client *clientState) growth(b *limitInfo, r *request) (ring, growth int64) {
	var words int
	if client.slot == nil {
		words = client.estimate.Words(b.Algorithm, r.cost)
	} else {
		ring = ringBytes(&client.slot.count)
		words = client.slot.count.Prepare(b.Limit, r.now, r.cost)
	}
	if words == 0 {
		return ring, 0
	}
	return ring, ringBound(words) - ring
}

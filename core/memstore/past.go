package memstore

import "github.com/sashlimit/sash/core/internal/window"

// A client moves from its slot into the sketch and back. On the way its units
// keep their epoch, and are dated as late in it as they can have been counted:
// so they count for at least as long as in the slot, and a client that moves
// many times does not carry them on from epoch to epoch.

// pastOf returns what a slot counts, by epochs.
func (b *bound) pastOf(s *slot, now int64) past {
	if b.isLog {
		p := past{epoch: b.epoch(max(now, s.log.Last))}
		counted := s.log.Since(now - b.W)
		p.newer = min(s.log.Since(b.end(p.epoch-1)), counted)
		p.older = counted - p.newer
		return p
	}
	// A fixed window belongs to the epoch in which it begins.
	c := *s.counter()
	c = c.At(max(now, c.Start(b.W)), b.W)
	start := c.Start(b.W)
	p := past{epoch: b.epoch(max(now, start))}
	p.count(b.epoch(start), c.Cur)
	p.count(b.epoch(start-b.W), c.Prev)
	return p
}

// count adds units of an epoch that is not later than the newest. Before the
// two newest nothing counts any more.
func (p *past) count(epoch, units int64) {
	switch epoch {
	case p.epoch:
		p.newer += units
	case p.epoch - 1:
		p.older += units
	}
}

// date returns when units of an epoch are taken to have been counted: as late as
// possible. latest is the latest time that the clock has shown, or somewhat after now
// where the clock has stepped back since.
func (b *bound) date(epoch, latest int64) int64 { return min(b.end(epoch), latest) }

// log returns the dates of a log's past, and what of it counts at now.
func (p *past) log(b *bound, now, latest int64) (older, newer int64, counted past) {
	older, newer = b.date(p.epoch-1, latest), b.date(p.epoch, latest)
	counted = *p
	if older <= now-b.W {
		counted.older = 0
	}
	return older, newer, counted
}

// counter returns the counter of a past.
func (p *past) counter(b *bound, latest int64) (c window.Counter) {
	if p.older > 0 {
		c = c.At(b.date(p.epoch-1, latest), b.W)
		c.Cur = p.older
	}
	if p.newer > 0 {
		c = c.At(max(c.Start(b.W), b.date(p.epoch, latest)), b.W)
		c.Cur += p.newer
	}
	return c
}

// begun returns the time before which a client with this past counts nothing
// more.
func (p *past) begun(b *bound, r *request) int64 {
	if !b.isLog {
		c := p.counter(b, r.latest)
		return c.Start(b.W)
	}
	older, newer, counted := p.log(b, r.now, r.latest)
	switch {
	case counted.newer > 0:
		return newer
	case counted.older > 0:
		return older
	}
	return r.now
}

// decide returns the verdict on a client that has no slot. A client that is
// refused and waits for RetryAfter is admitted by the sketch as it stands: that is
// as late as a window after the end of the epoch.
func (p *past) decide(b *bound, r *request) window.Verdict {
	now, stamp, cost := r.now, r.stamp, r.cost
	if b.isLog {
		_, _, counted := p.log(b, now, r.latest)
		older, newer := b.end(p.epoch-1), b.end(p.epoch)
		f := window.LogFacts{Units: counted.older + counted.newer, Oldest: newer, Leaver: newer}
		if counted.older > 0 {
			f.Oldest = older
		}
		if b.Excess(f.Units, cost) <= counted.older {
			f.Leaver = older
		}
		return f.Decide(b.Limit, now, stamp, cost)
	}
	c := p.counter(b, r.latest)
	v := c.At(stamp, b.W).Decide(b.Limit, now, stamp, cost)
	if v.RetryAfter != 0 && v.RetryAfter != window.Never && b.span != b.W {
		// The fixed window in which the epoch ends and the one after it.
		last := window.Counter{}.At(b.end(p.epoch), b.W)
		v.RetryAfter = last.Start(b.W) + 2*b.W - now
	}
	return v
}

// restore gives an empty slot its past. A log may need a ring for three entries
// of any cost.
func (p *past) restore(b *bound, s *slot, r *request) {
	if p.none() {
		return
	}
	s.mark(hides)
	if !b.isLog {
		*s.counter() = p.counter(b, r.latest)
		return
	}
	older, newer, counted := p.log(b, r.now, r.latest)
	if counted.older > 0 {
		s.log.Push(older, counted.older)
	}
	if counted.newer > 0 {
		s.log.Push(newer, counted.newer)
	}
	s.weigh()
}

package window

// A store that has no memory for a client's Count keeps a Past of it. When the client
// is back, its Count is restored from the Past. On the way units keep their epoch,
// and are dated as late in it as they can have been counted: so they count for at
// least as long as in the Count, and a client that goes to and fro many times does
// not carry them on from epoch to epoch.

// Past is what is known of a count by epochs: at least the units that were counted in
// an Epoch, and in the one before.
type Past struct{ Epoch, Older, Newer int64 }

// None reports whether no units are known.
func (p Past) None() bool { return p.Older == 0 && p.Newer == 0 }

// Bound is a limit and the length of the epochs of a Past under it: a window, or at
// least two.
type Bound struct {
	Limit
	Span int64
}

// Epoch returns the number of the epoch at a time.
func (b *Bound) Epoch(at int64) int64 { return FloorDiv(at, b.Span) }

// End returns the last moment of an epoch.
func (b *Bound) End(epoch int64) int64 { return (epoch+1)*b.Span - 1 }

// date returns when units of an epoch are taken to have been counted: as late as
// possible, but not after latest.
func (b *Bound) date(epoch, latest int64) int64 { return min(b.End(epoch), latest) }

// FloorDiv returns a/b rounded down, where Go rounds towards 0.
func FloorDiv(a, b int64) int64 {
	if a < 0 {
		return (a+1)/b - 1
	}
	return a / b
}

// Request is a request of the given Cost at Now, which is counted at Stamp: the newest
// of Now and what is counted already. What a Past knows is dated Latest at the latest:
// Now, or by how much a clock has stepped back a little later.
type Request struct{ Now, Stamp, Latest, Cost int64 }

// add counts units that may be of a later epoch, or of one before the two.
func (p *Past) add(epoch, units int64) {
	switch {
	case epoch > p.Epoch:
		*p = Past{Epoch: epoch, Older: p.Older + p.Newer, Newer: units}
	case epoch == p.Epoch:
		p.Newer += units
	default:
		p.Older += units
	}
}

func (l *Log) past(b *Bound, now int64) Past {
	p := Past{Epoch: b.Epoch(max(now, l.last))}
	counted := l.Since(now - b.W)
	p.Newer = min(l.Since(b.End(p.Epoch-1)), counted)
	p.Older = counted - p.Newer
	return p
}

// past counts a fixed window in the epoch in which it begins. That is one of the newest
// two for both windows of a counter, by the Span of a Bound.
func (c Counter) past(b *Bound, now int64) Past {
	c = c.At(max(now, c.Start(b.W)), b.W)
	start := c.Start(b.W)
	p := Past{Epoch: b.Epoch(max(now, start))}
	p.add(b.Epoch(start), c.Cur)
	p.add(b.Epoch(start-b.W), c.Prev)
	return p
}

// log returns the dates of a log's past, and what of it counts at now.
func (p Past) log(b *Bound, now, latest int64) (older, newer int64, counted Past) {
	older, newer = b.date(p.Epoch-1, latest), b.date(p.Epoch, latest)
	counted = p
	if older <= now-b.W {
		counted.Older = 0
	}
	return older, newer, counted
}

func (p Past) logBegun(b *Bound, r *Request) int64 {
	older, newer, counted := p.log(b, r.Now, r.Latest)
	switch {
	case counted.Newer > 0:
		return newer
	case counted.Older > 0:
		return older
	}
	return r.Now
}

func (p Past) decideLog(b *Bound, r *Request) Verdict {
	_, _, counted := p.log(b, r.Now, r.Latest)
	older, newer := b.End(p.Epoch-1), b.End(p.Epoch)
	f := LogFacts{Units: counted.Older + counted.Newer, Oldest: newer, Leaver: newer}
	if counted.Older > 0 {
		f.Oldest = older
	}
	if b.Excess(f.Units, r.Cost) <= counted.Older {
		f.Leaver = older
	}
	return f.Decide(b.Limit, r.Now, r.Stamp, r.Cost)
}

func (l *Log) restore(b *Bound, p Past, r *Request) {
	older, newer, counted := p.log(b, r.Now, r.Latest)
	if counted.Older > 0 {
		l.Push(older, counted.Older)
	}
	if counted.Newer > 0 {
		l.Push(newer, counted.Newer)
	}
}

// counter returns the counter of a past.
func (p Past) counter(b *Bound, latest int64) (c Counter) {
	if p.Older > 0 {
		c = c.At(b.date(p.Epoch-1, latest), b.W)
		c.Cur = p.Older
	}
	if p.Newer > 0 {
		c = c.At(max(c.Start(b.W), b.date(p.Epoch, latest)), b.W)
		c.Cur += p.Newer
	}
	return c
}

func (p Past) decideCounter(b *Bound, r *Request) Verdict {
	c := p.counter(b, r.Latest)
	v := c.At(r.Stamp, b.W).Decide(b.Limit, r.Now, r.Stamp, r.Cost)
	if v.RetryAfter != 0 && v.RetryAfter != Never && b.Span != b.W {
		// The fixed window in which the epoch ends and the one after it.
		last := Counter{}.At(b.End(p.Epoch), b.W)
		v.RetryAfter = last.Start(b.W) + 2*b.W - r.Now
	}
	return v
}

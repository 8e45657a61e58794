package window

// A store that has no memory for a client's Count keeps a Past of it. When the client
// is back, its Count is restored from the Past. On the way units keep their epoch,
// and are dated as late in it as they can have been counted: so they count for at
// least as long as in the Count, and a client that goes to and fro many times does
// not carry them on from epoch to epoch.

// Past bounds a count at a time: at least the units that were counted in the
// epoch of that time, and in the one before.
type Past struct{ Older, Newer int64 }

// None reports whether no units are known.
func (p Past) None() bool { return p == Past{} }

// Bound is a limit and the length of the epochs of a Past under it: a window, or at
// least two.
type Bound struct {
	Limit
	Span int64
}

// Epoch returns the number of the epoch at a time.
func (b *Bound) Epoch(at int64) int64 { return at / b.Span }

// End returns the last moment of an epoch.
func (b *Bound) End(epoch int64) int64 { return (epoch+1)*b.Span - 1 }

// older returns the last moment of the epoch before now's: when the Older units of a Past
// are taken to have been counted. The Newer ones are taken to be of now.
func (b *Bound) older(now int64) int64 { return b.End(b.Epoch(now) - 1) }

// add counts units of a time in its epoch, or in Older if that is before the two.
func (p *Past) add(b *Bound, now, at, units int64) {
	if at > b.older(now) {
		p.Newer += units
	} else {
		p.Older += units
	}
}

func (l *Log) past(b *Bound, now int64) Past {
	counted := l.Since(now - b.W)
	newer := min(l.Since(b.older(now)), counted)
	return Past{Older: counted - newer, Newer: newer}
}

// past counts a fixed window in the epoch in which it begins. That is one of the newest
// two for both windows of a counter, by the Span of a Bound.
func (c Counter) past(b *Bound, now int64) (p Past) {
	c = c.At(now, b.W)
	start := c.Start(b.W)
	p.add(b, now, start, c.Cur)
	p.add(b, now, start-b.W, c.Prev)
	return p
}

// log returns what of a log's past counts at now, and when the Older units of it were
// counted.
func (p Past) log(b *Bound, now int64) (counted Past, older int64) {
	if older = b.older(now); older <= now-b.W {
		p.Older = 0
	}
	return p, older
}

func (p Past) decideLog(b *Bound, now, cost int64) Verdict {
	counted, older := p.log(b, now)
	newer := older + b.Span // as late as they can be when the client is back
	f := LogFacts{Units: counted.Older + counted.Newer, Oldest: newer, Leaver: newer}
	if counted.Older > 0 {
		f.Oldest = older
	}
	if b.Excess(f.Units, cost) <= counted.Older {
		f.Leaver = older
	}
	return f.Decide(b.Limit, now, now, cost)
}

func (l *Log) restore(b *Bound, p Past, now int64) {
	counted, older := p.log(b, now)
	if counted.Older > 0 {
		l.Push(older, counted.Older)
	}
	if counted.Newer > 0 {
		l.Push(now, counted.Newer)
	}
}

// counter returns the counter of a past.
func (p Past) counter(b *Bound, now int64) (c Counter) {
	if p.Older > 0 {
		c = c.At(b.older(now), b.W)
		c.Cur = p.Older
	}
	if p.Newer > 0 {
		c = c.At(now, b.W)
		c.Cur += p.Newer
	}
	return c
}

func (p Past) decideCounter(b *Bound, now, cost int64) Verdict {
	v := p.counter(b, now).At(now, b.W).Decide(b.Limit, now, now, cost)
	if v.RetryAfter != 0 && v.RetryAfter != Never && b.Span != b.W {
		// The fixed window in which the epoch ends and the one after it.
		last := Counter{}.At(b.End(b.Epoch(now)), b.W)
		v.RetryAfter = last.Start(b.W) + 2*b.W - now
	}
	return v
}

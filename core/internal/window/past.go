package window

import "github.com/sashlimit/sash/core"

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

// Bound is a limit and the length of the epochs of a Past under it: its Epoch, or at
// least two.
type Bound struct {
	Limit
	Span int64
}

// Number returns the number of the epoch at a time.
func (b *Bound) Number(at int64) int64 { return at / b.Span }

// End returns the last moment of an epoch.
func (b *Bound) End(epoch int64) int64 { return (epoch+1)*b.Span - 1 }

// older returns the last moment of the epoch before now's: when the Older units of a Past
// are taken to have been counted. The Newer ones are taken to be of now.
func (b *Bound) older(now int64) int64 { return b.End(b.Number(now) - 1) }

// add counts units of a time in its epoch, or in Older if that is before the two.
func (p *Past) add(b *Bound, now, at, units int64) {
	if at > b.older(now) {
		p.Newer += units
	} else {
		p.Older += units
	}
}

// Add counts a request in the epoch in which [Count.Past] has the units of a Count: that of
// the fixed window of a counter, or the slot of a CoarseLog. Otherwise a client of both would
// have the units twice.
func (p *Past) Add(b *Bound, now, cost int64) {
	_, units := b.room().inPast(b, cost)
	p.add(b, now, b.begin(now), units)
}

// counted returns what of a past counts at now, for all that the epochs tell.
func (p Past) counted(b *Bound, now int64) Past {
	if b.end(b.older(now)) <= now-b.W {
		p.Older = 0
	}
	return p
}

// Words returns how long a ring gets at most in which p is restored and a request of
// the given cost is counted.
func (p Past) Words(a core.Algorithm, cost int64) int { return nothing.of(a).restored(p, cost) }

// Decide returns the verdict on a client of which p alone is known. A client that is
// refused and waits for RetryAfter is admitted by p as it stands: that is as late as a
// window after the end of the epoch.
func (p Past) Decide(b *Bound, now, cost int64) Verdict { return b.room().decidePast(p, b, now, cost) }

// decideDated is Decide for an algorithm by which each unit leaves a window after its end.
func (p Past) decideDated(b *Bound, now, cost int64) Verdict {
	counted, older := p.counted(b, now), b.older(now)
	newer := b.end(older + b.Span) // as late as they can be when the client is back
	f := LogFacts{Units: counted.Older + counted.Newer, Oldest: newer, Leaver: newer}
	if counted.Older > 0 {
		f.Oldest = b.end(older)
	}
	if b.Excess(f.Units, cost) <= counted.Older {
		f.Leaver = f.Oldest
	}
	return f.Decide(b.Limit, now, b.end(now), cost)
}

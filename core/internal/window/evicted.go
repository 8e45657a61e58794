package window

import "github.com/sashlimit/sash/core"

// EvictedCount is an upper bound of an evicted Count, at a time: the units of the epoch of that time (Newer) and of the
// epoch before (Older). A store that has no memory for a Count keeps an EvictedCount, and restores the Count from it
// when the client is back.
//
// Units keep their epoch, and get the latest time in it that they can have had. So they expire no earlier than in the
// Count, and a client that is evicted and restored many times does not carry them on from epoch to epoch.
type EvictedCount struct{ Older, Newer int64 }

// IsZero reports whether nothing is counted.
func (p EvictedCount) IsZero() bool { return p == EvictedCount{} }

// Bound is a limit and the length of the epochs of its EvictedCounts: the limit's Epoch, or at least twice that.
type Bound struct {
	Limit
	Span int64
}

// EpochAt returns the number of the epoch at a time.
func (b *Bound) EpochAt(at int64) int64 { return at / b.Span }

// End returns the last moment of an epoch.
func (b *Bound) End(epoch int64) int64 { return (epoch+1)*b.Span - 1 }

// previousEnd returns the last moment of the epoch before now's. The Older units of an EvictedCount get this time, and
// the Newer units get now.
func (b *Bound) previousEnd(now int64) int64 { return b.End(b.EpochAt(now) - 1) }

// add counts units of a time in its epoch, or in Older if the epoch is earlier still.
func (p *EvictedCount) add(b *Bound, now, at, units int64) {
	if at > b.previousEnd(now) {
		p.Newer += units
	} else {
		p.Older += units
	}
}

// Add counts a request in the same epoch as [Count.Summarize] does: the epoch in which the fixed window of a counter
// begins, or the slot of a CoarseLog. With another epoch, units of a client that has both would count twice.
func (p *EvictedCount) Add(b *Bound, now, cost int64) {
	_, units := b.algorithm().evictedUnits(b, cost)
	p.add(b, now, b.start(now), units)
}

// unexpired returns the units that may still count at now.
func (p EvictedCount) unexpired(b *Bound, now int64) EvictedCount {
	if b.end(b.previousEnd(now)) <= now-b.W {
		p.Older = 0
	}
	return p
}

// Words returns an upper bound of the ring's length after p is restored and a request of the given cost is counted.
func (p EvictedCount) Words(a core.Algorithm, cost int64) int {
	return empty.of(a).restoredWords(p, cost)
}

// Decide returns the verdict on a request of an evicted client. After RetryAfter p admits the request if nothing was
// added to it. Newer units begin to expire after the end of the epoch, so RetryAfter may be longer than a window.
func (p EvictedCount) Decide(b *Bound, now, cost int64) Verdict {
	return b.algorithm().decideEvicted(p, b, now, cost)
}

// decideTimestamped is Decide for the algorithms whose units expire a window after their end.
func (p EvictedCount) decideTimestamped(b *Bound, now, cost int64) Verdict {
	live, older := p.unexpired(b, now), b.previousEnd(now)
	newer := b.end(older + b.Span) // the latest time that they can have
	f := LogFacts{Units: live.Older + live.Newer, Oldest: newer, Expiring: newer}
	if live.Older > 0 {
		f.Oldest = b.end(older)
	}
	if b.Excess(f.Units, cost) <= live.Older {
		f.Expiring = f.Oldest
	}
	return f.Decide(b.Limit, now, b.end(now), cost)
}

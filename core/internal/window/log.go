package window

import (
	"sort"

	"github.com/sashlimit/sash/core"
)

// LogFacts holds the facts of a log of admitted requests that a decision needs. An
// entry expires when it is a window old.
type LogFacts struct {
	Units    int64 // counted
	Oldest   int64 // stamp of the oldest unit; undefined if Units is 0
	Expiring int64 // stamp of the unit that must expire before the request fits; see Excess
}

// Excess returns the number of the oldest units that must expire before cost more fit:
// Expiring is the stamp of the Excess-th oldest unit. The number is positive if the request
// is refused for now, and has no meaning for a cost above the limit.
func (l Limit) Excess(units, cost int64) int64 { return units + cost - l.N }

// Decide returns the verdict on a request of the given cost at now. An admitted
// request is counted at stamp: the latest of now and the stamps of the log.
// Expiry, and so the times to wait, are relative to now.
func (f LogFacts) Decide(l Limit, now, stamp, cost int64) Verdict {
	v := Verdict{Admitted: l.fits(f.Units, cost)}
	counted := f.Units
	if v.Admitted {
		counted += cost
	}
	v.Remaining = l.left(counted)
	switch {
	case f.Units > 0:
		v.ResetAfter = f.Oldest + l.W - now
	case counted > 0:
		v.ResetAfter = stamp + l.W - now
	}
	switch {
	case v.Admitted:
	case cost > l.N:
		v.RetryAfter = Never
	default:
		v.RetryAfter = f.Expiring + l.W - now
	}
	return v
}

// unitsAt includes expired units that Expire has not dropped.
func (l *Log) unitsAt(Limit, int64) int64 {
	if l.pairs {
		return l.units.Units()
	}
	return int64(l.entries)
}

// expired returns the number of entries at cutoff or before. Mostly few are expired,
// so the search begins at the old end, in steps that double.
func (l *Log) expired(cutoff int64) uint32 {
	switch {
	case l.last <= cutoff:
		return l.entries
	case l.first > cutoff, l.entries == 0:
		return 0
	case l.stamp(1) > cutoff:
		return 1
	}
	low, high := uint32(2), uint32(3)
	for ; high < l.entries && l.stamp(high) <= cutoff; high = 2*high + 1 {
		low = high + 1
	}
	return search(low, min(high, l.entries), func(i uint32) bool { return l.stamp(i) > cutoff })
}

// Expire drops the entries at cutoff or before: now - W for a window W. Only
// callers whose clock never steps back may call it without a Push.
func (l *Log) Expire(cutoff int64) {
	expired := l.expired(cutoff)
	switch expired {
	case 0:
		return
	case l.entries:
		l.entries, l.pairs = 0, false
		return
	}
	if l.pairs {
		gone := l.total(expired - 1)
		l.units = Round(l.total(l.entries-1) - gone)
		*l.base() += gone
	}
	l.first = l.stamp(expired)
	if l.words != 0 {
		l.head = l.at(expired)
	}
	l.entries -= expired
}

// Since returns the units that were counted after cutoff.
func (l *Log) Since(cutoff int64) int64 {
	return l.before(l.entries) - l.before(l.expired(cutoff))
}

// facts returns the facts for a decision on cost, given the number of expired entries.
func (l *Log) facts(expired uint32, limit Limit, cost int64) LogFacts {
	if expired == l.entries {
		return LogFacts{}
	}
	gone := l.before(expired)
	f := LogFacts{Units: l.total(l.entries-1) - gone, Oldest: l.stamp(expired)}
	if k := limit.Excess(f.Units, cost); k > 0 {
		// Every entry holds at least a unit, so the k-th unit is at most k entries in.
		last := expired + uint32(min(k, int64(l.entries-expired))) - 1
		if l.pairs {
			last = search(expired, last, func(i uint32) bool { return l.total(i)-gone >= k })
		}
		f.Expiring = l.stamp(last)
	}
	return f
}

// search returns the first i in [lo, hi) for which f holds, or hi.
func search(lo, hi uint32, f func(uint32) bool) uint32 {
	return lo + uint32(sort.Search(int(hi-lo), func(i int) bool { return f(lo + uint32(i)) }))
}

// Push counts cost units at stamp, which is not before minStamp, after Expire. If
// they do not fit, the ring grows to Grown words.
func (l *Log) Push(stamp, cost int64) {
	if !l.Fits(cost) {
		l.move(l.Grown(cost), l.pairs || cost != 1)
	}
	total := l.before(l.entries) + cost
	l.last = stamp
	l.entries++
	l.put(l.entries-1, stamp, total)
}

// put writes an entry, with the running total that includes it.
func (l *Log) put(i uint32, stamp, total int64) {
	if i == 0 {
		l.first = stamp
	}
	switch at := l.at(i); {
	case l.pairs:
		l.units = Round(total)
		l.ring()[2*at], l.ring()[2*at+1] = stamp, *l.base()+total
	case l.words != 0:
		l.ring()[at] = stamp
	}
}

func init() { algorithms[core.SlidingLog] = func(c *Count) algorithm { return &c.log } }

func (l *Log) minStamp(Limit) int64 {
	if l.entries == 0 {
		return 0
	}
	return l.last
}

func (l *Log) decide(limit Limit, now, stamp, cost int64) Verdict {
	return l.facts(l.expired(now-limit.W), limit, cost).Decide(limit, now, stamp, cost)
}

func (l *Log) take(limit Limit, now, cost int64) (v Verdict, words int) {
	l.Expire(now - limit.W)
	v = l.facts(0, limit, cost).Decide(limit, now, now, cost)
	switch {
	case !v.Admitted || cost == 0:
	case l.Fits(cost):
		l.Push(now, cost)
	default:
		words = l.Grown(cost)
	}
	return v, words
}

func (l *Log) prepare(limit Limit, now, cost int64) (words int) {
	if l.Expire(now - limit.W); l.Fits(cost) {
		return 0
	}
	return l.Grown(cost)
}

func (l *Log) add(_ Limit, stamp, cost int64) { l.Push(stamp, cost) }

func (l *Log) isEmpty(limit Limit, now int64) bool { return l.last <= now-limit.W }

func (l *Log) trim(limit Limit, now int64) {
	l.Expire(now - limit.W)
	if l.first <= now-limit.W/2 && l.entries < l.capacity()/4 { // else it may be about to fill again
		l.move(words(l.entries, l.pairs), l.pairs)
	}
}

func (l *Log) summarize(b *Bound, now int64) EvictedCount {
	counted := l.Since(now - b.W)
	newer := min(l.Since(b.previousEnd(now)), counted)
	return EvictedCount{Older: counted - newer, Newer: newer}
}

func (*Log) start(_ Limit, at int64) int64 { return at }

func (*Log) end(_ Limit, at int64) int64 { return at }

func (*Log) epoch(l Limit) int64 { return l.W }

func (*Log) decideEvicted(p EvictedCount, b *Bound, now, cost int64) Verdict {
	return p.decideTimestamped(b, now, cost)
}

func (*Log) evictedUnits(b *Bound, cost int64) (Limit, int64) { return b.Limit, cost }

func (*Log) restoredWords(p EvictedCount, cost int64) (longest int) {
	if p.IsZero() && cost == 1 {
		return 0
	}
	return words(2, true) // two entries of any cost, and a third
}

package statespace

import "github.com/sashlimit/sash/core"

func init() { definitions[core.SlidingCounter] = counter{} }

// counter counts the units of this fixed window, and those of the previous window weighted by the rest of this one. A
// return does not change the start of a counter.
type counter struct{ unitLog }

func (counter) minStamp(l Limit, newest int64) int64 { return newest / l.W * l.W }

func (counter) used(l Limit, entries []Unit, _, stamp int64) (used int64) {
	before := int64(0)
	for _, u := range entries {
		switch u.At / l.W {
		case stamp / l.W:
			used += u.N
		case stamp/l.W - 1:
			before += u.N
		}
	}
	return used + before*(l.W-stamp%l.W)/l.W
}

func (counter) counts(l Limit, entries []Unit, at, now int64) bool {
	return (at/l.W+2)*l.W > max(now, l.minStamp(entries))
}

func (counter) resetAfter(l Limit, _ []Unit, now, stamp, _ int64) int64 {
	return (stamp/l.W+1)*l.W - now
}

// maxUsed returns 2*N, and more after charges, by which the previous fixed window may hold more than N at its end.
func (counter) maxUsed(l Limit, entries []Unit, end int64) int64 {
	before := int64(0)
	for _, u := range entries {
		if u.At/l.W == end/l.W-1 {
			before += u.N
		}
	}
	return l.N + max(l.N, before)
}

package statespace

import (
	"math"
	"slices"

	"github.com/sashlimit/sash/core"
)

func init() { definitions[core.Bucket] = bucket{} }

// bucket is an owed time, in parts of a microsecond that any N below 17 divides. Each unit adds W/N. The first entry
// holds the time owed at the newest request; the others are the requests, less their returned units. Elapsed is
// the time during which any was owed, in microseconds, less the time that has paid for returned units.
type bucket struct{}

const parts = 720_720

// on returns the time owed at at, in whole Nths of a microsecond.
func (bucket) levelAt(l Limit, entries []Unit, at int64) Unit {
	if len(entries) == 0 {
		return Unit{At: at}
	}
	u, passed := entries[0], max(0, at-entries[0].At)
	if u.Owed <= passed*parts {
		return Unit{At: max(u.At, at)}
	}
	nth := parts / l.N
	return Unit{At: u.At + passed, Owed: (u.Owed - passed*parts + nth - 1) / nth * nth, Elapsed: u.Elapsed + passed}
}

func (bucket) minStamp(_ Limit, newest int64) int64 { return newest }

// unit returns the owed time of one unit.
func (bucket) unit(l Limit) int64 { return parts / l.N * l.W }

func (b bucket) used(l Limit, entries []Unit, _, stamp int64) (used int64) {
	return (b.levelAt(l, entries, stamp).Owed + b.unit(l) - 1) / b.unit(l)
}

func (b bucket) counts(l Limit, entries []Unit, _, now int64) bool {
	return b.levelAt(l, entries, now).Owed > 0
}

// admit drops requests older than a window.
func (b bucket) admit(l Limit, entries []Unit, _, at, n int64) []Unit {
	owed := b.levelAt(l, entries, at)
	owed.Owed += n * b.unit(l)
	after := []Unit{owed}
	for i, u := range entries {
		if i > 0 && u.At > at-u.Limit.W {
			after = append(after, u)
		}
	}
	return append(after, Unit{At: at, N: n, Limit: l})
}

// takeBack takes the units' part off the owed time, for a request that has cost units left.
func (b bucket) takeBack(l Limit, entries []Unit, at, cost, units int64) ([]Unit, int64) {
	minStamp := l.minStamp(entries)
	if at > minStamp {
		return entries, units
	}
	left, passed := slices.Clone(entries), minStamp-at
	for i, u := range left {
		if i > 0 && u == (Unit{At: at, N: cost, Limit: l}) {
			if left[i].N -= units; units == cost {
				left = slices.Delete(left, i, i+1)
			}
			break
		}
	}
	owed := b.levelAt(l, entries, minStamp)
	missing := max(0, units-(owed.Owed+passed*parts+b.unit(l)-1)/b.unit(l))
	if cost*b.unit(l) <= passed*parts { // time has paid for it
		return left, missing
	}
	rest, paid := (cost-units)*b.unit(l), min(passed, owed.Elapsed)
	if rest < paid*parts {
		owed.Elapsed -= paid - (rest+parts-1)/parts
		rest = paid * parts
	}
	if owed.Owed += rest - cost*b.unit(l); owed.Owed <= 0 {
		return nil, missing
	}
	left[0] = owed
	return left, missing
}

func (bucket) resetAfter(l Limit, entries []Unit, now, stamp, _ int64) int64 {
	return l.timeUntil(entries, now, stamp, func(used int64) bool { return used == 0 })
}

// maxUsed has no bound: the units may belong to other limits. Package window bounds their owed time.
func (bucket) maxUsed(Limit, []Unit, int64) int64 { return math.MaxInt64 }

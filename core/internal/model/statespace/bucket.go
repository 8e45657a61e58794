package statespace

import (
	"math"
	"slices"

	"github.com/sashlimit/sash/core"
)

func init() { definitions[core.Bucket] = bucket{} }

// bucket is a time that is owed, in parts of a microsecond that any N below 17 divides. Each unit adds W/N. The first
// entry of a past has what was owed at the newest request, and the others are the requests, less what was given back.
// Free is how long something was owed, in microseconds, less what is known to have paid for units that were given back.
type bucket struct{}

const parts = 720_720

// on returns what is owed at a time, by a limit whole Nths of a microsecond.
func (bucket) on(l Limit, past []Unit, at int64) Unit {
	if len(past) == 0 {
		return Unit{At: at}
	}
	u, passed := past[0], max(0, at-past[0].At)
	if u.Owed <= passed*parts {
		return Unit{At: max(u.At, at)}
	}
	nth := parts / l.N
	return Unit{At: u.At + passed, Owed: (u.Owed - passed*parts + nth - 1) / nth * nth, Free: u.Free + passed}
}

func (bucket) begun(_ Limit, newest int64) int64 { return newest }

// unit returns what a unit of a limit costs.
func (bucket) unit(l Limit) int64 { return parts / l.N * l.W }

func (b bucket) used(l Limit, past []Unit, _, stamp int64) (used int64) {
	return (b.on(l, past, stamp).Owed + b.unit(l) - 1) / b.unit(l)
}

func (b bucket) counts(l Limit, past []Unit, _, now int64) bool { return b.on(l, past, now).Owed > 0 }

// admit forgets requests that are as old as a window.
func (b bucket) admit(l Limit, past []Unit, _, at, n int64) []Unit {
	owed := b.on(l, past, at)
	owed.Owed += n * b.unit(l)
	after := []Unit{owed}
	for i, u := range past {
		if i > 0 && u.At > at-u.Of.W {
			after = append(after, u)
		}
	}
	return append(after, Unit{At: at, N: n, Of: l})
}

// giveBack takes what is owed of the units, of a request of which cost was left.
func (b bucket) giveBack(l Limit, past []Unit, at, cost, units int64) ([]Unit, int64) {
	begun := l.begun(past)
	if at > begun {
		return past, units
	}
	left, passed := slices.Clone(past), begun-at
	for i, u := range left {
		if i > 0 && u == (Unit{At: at, N: cost, Of: l}) {
			if left[i].N -= units; units == cost {
				left = slices.Delete(left, i, i+1)
			}
			break
		}
	}
	owed := b.on(l, past, begun)
	missing := max(0, units-(owed.Owed+passed*parts+b.unit(l)-1)/b.unit(l))
	if cost*b.unit(l) <= passed*parts { // time has paid for it
		return left, missing
	}
	kept, paid := (cost-units)*b.unit(l), min(passed, owed.Free)
	if kept < paid*parts {
		owed.Free -= paid - (kept+parts-1)/parts
		kept = paid * parts
	}
	if owed.Owed += kept - cost*b.unit(l); owed.Owed <= 0 {
		return nil, missing
	}
	left[0] = owed
	return left, missing
}

func (bucket) resetAfter(l Limit, past []Unit, now, stamp, _ int64) int64 {
	return l.first(past, now, stamp, func(used int64) bool { return used == 0 })
}

// most is no bound of units: requests of other limits may be among them. What they cost is bounded in package window.
func (bucket) most(Limit, []Unit, int64) int64 { return math.MaxInt64 }

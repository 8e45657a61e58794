package statespace

import (
	"slices"

	"github.com/sashlimit/sash/core"
)

func init() { definitions[core.Bucket] = bucket{} }

// bucket is filled by the units that are admitted, and runs out evenly, N in W. Units that were given back are below 0.
type bucket struct{}

// level returns what is in the bucket at a time, in parts of a unit of which it has W.
func (bucket) level(l Limit, past []Unit, until int64) (level int64) {
	at := int64(0)
	for _, u := range append(slices.Clone(past), Unit{At: until}) {
		level = max(0, level-max(0, u.At-at)*l.N)
		level = max(0, level+u.N*l.W)
		at = max(at, u.At)
	}
	return level
}

func (bucket) begun(_ Limit, newest int64) int64 { return newest }

func (b bucket) used(l Limit, past []Unit, _, stamp int64) (used int64) {
	return (b.level(l, past, stamp) + l.W - 1) / l.W
}

func (b bucket) counts(l Limit, past []Unit, _, now int64) bool { return b.level(l, past, now) > 0 }

// admit forgets what was before the bucket was empty.
func (b bucket) admit(l Limit, past []Unit, _, at, n int64) []Unit {
	if b.level(l, past, at) == 0 {
		past = nil
	}
	return add(past, at, n)
}

// add returns a past with n units more or, below 0, less: in the last entry, if that makes no difference.
func add(past []Unit, at, n int64) []Unit {
	past = append(slices.Clone(past), Unit{at, n})
	for i := len(past) - 1; i > 0 && past[i-1].At == at && (past[i-1].N >= 0 || past[i].N < 0); i-- {
		past[i-1].N += past[i].N
		past = past[:i]
	}
	return past
}

// giveBack finds what may be in the bucket, and what has run out since.
func (b bucket) giveBack(l Limit, past []Unit, at, units int64) ([]Unit, int64) {
	begun := l.begun(past)
	switch {
	case at > begun:
		return past, units
	case at <= begun-l.W:
		return past, 0
	}
	found := b.used(l, past, 0, begun) + (begun-at)*l.N/l.W
	left := add(past, begun, -units)
	if b.level(l, left, begun) == 0 {
		left = nil
	}
	return left, max(0, units-found)
}

func (bucket) resetAfter(l Limit, past []Unit, now, stamp, _ int64) int64 {
	return l.first(past, now, stamp, func(used int64) bool { return used == 0 })
}

func (bucket) most(l Limit, _ []Unit, _ int64) int64 { return 2 * l.N }

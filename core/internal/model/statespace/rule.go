package statespace

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/sashlimit/sash/core"
)

// Never is the RetryAfter of a cost above the limit.
const Never = -1

// Limit is N units in any window of W microseconds.
type Limit struct {
	N, W      int64
	Algorithm core.Algorithm
}

// Unit is some units and the time at which they were admitted: of a bucket, the limit by which they were, too.
type Unit struct {
	At, N int64
	Of    Limit
	Owed  int64 // of the first entry of a bucket, as is Free
	Free  int64
}

// Client holds the admitted units of a client that may still count, by limit of a rule.
type Client [][]Unit

// Rule is limits that hold together.
type Rule struct {
	Limits    []Limit
	Allowance int64 // how far ahead of the clock something may be counted
}

// Verb is a kind of request: Take counts if all limits admit, Peek never, Charge always.
type Verb string

// The verbs.
const (
	Take   Verb = "take"
	Peek   Verb = "peek"
	Charge Verb = "charge"
)

// Answer is the answer to a request. Times are in microseconds from now.
type Answer struct {
	Admitted                          bool
	Remaining, ResetAfter, RetryAfter int64
}

// definition is the meaning of an algorithm, in the plainest words. Each has a file.
type definition interface {
	// begun returns the time before which nothing more is counted, given the newest unit.
	begun(l Limit, newest int64) int64

	// used returns how many units count at now, for a request that is counted at stamp.
	used(l Limit, past []Unit, now, stamp int64) int64

	// counts reports whether units of a time may still count at now.
	counts(l Limit, past []Unit, at, now int64) bool

	// admit returns a past with n units more at a time. It may leave out what does not count at now, not even if the
	// clock steps back after this.
	admit(l Limit, past []Unit, now, at, n int64) []Unit

	// resetAfter returns the ResetAfter of a past of which used units count.
	resetAfter(l Limit, past []Unit, now, stamp, used int64) int64

	// giveBack returns what is left of a past after units of a request of a time, of which cost was left and which may
	// count, were taken back, and how many of them could not be found.
	giveBack(l Limit, past []Unit, at, cost, units int64) (left []Unit, missing int64)

	// most returns how many units the window that ends at a time, when a request was admitted, may hold at most.
	most(l Limit, past []Unit, end int64) int64
}

var definitions = map[core.Algorithm]definition{}

func (l Limit) definition() definition { return definitions[l.Algorithm] }

// begun returns the time before which nothing more is counted.
func (l Limit) begun(past []Unit) (at int64) {
	for _, u := range past {
		at = max(at, u.At)
	}
	return l.definition().begun(l, at)
}

// Used returns how many units count at now.
func (l Limit) Used(past []Unit, now int64) int64 { return l.used(past, now, max(now, l.begun(past))) }

func (l Limit) used(past []Unit, now, stamp int64) int64 {
	return l.definition().used(l, past, now, stamp)
}

func (l Limit) counts(past []Unit, at, now int64) bool {
	return l.definition().counts(l, past, at, now)
}

// first returns how long it takes from now until holds, which goes on holding then. What counts never grows with time.
func (l Limit) first(past []Unit, now, stamp int64, holds func(used int64) bool) int64 {
	return int64(sort.Search(int(stamp-now+100*l.W), func(d int) bool {
		t := now + int64(d)
		return holds(l.used(past, t, max(t, stamp)))
	}))
}

// decide returns the answer of one limit.
func (l Limit) decide(past []Unit, now, stamp, cost int64, verb Verb) Answer {
	used := l.used(past, now, stamp)
	a := Answer{Admitted: cost == 0 || verb == Charge || cost <= l.N-used}
	switch {
	case a.Admitted:
		past = l.definition().admit(l, past, now, stamp, cost)
		used += cost
	case cost > l.N:
		a.RetryAfter = Never
	default:
		a.RetryAfter = l.first(past, now, stamp, func(used int64) bool { return used+cost <= l.N })
	}
	a.Remaining = max(0, l.N-used)
	if used > 0 {
		a.ResetAfter = l.definition().resetAfter(l, past, now, stamp, used)
	}
	return a
}

// binds reports whether a, of a limit listed after that of b, is the answer of both.
func (a Answer) binds(b Answer) bool {
	switch {
	case a.Admitted != b.Admitted:
		return b.Admitted
	case !a.Admitted:
		return b.RetryAfter != Never && (a.RetryAfter == Never || a.RetryAfter > b.RetryAfter)
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.ResetAfter > b.ResetAfter
}

// apart is what definitions share by which units stay apart, unless they begin together.
type apart struct{}

func (apart) admit(l Limit, past []Unit, now, at, n int64) []Unit {
	past = slices.DeleteFunc(slices.Clone(past), func(u Unit) bool { return !l.counts(past, u.At, now) })
	if last := len(past) - 1; last >= 0 && l.together(past[last].At, at) {
		past[last] = Unit{At: at, N: past[last].N + n}
		return past
	}
	return append(past, Unit{At: at, N: n})
}

// giveBack leaves some units of 0.
func (apart) giveBack(l Limit, past []Unit, at, _, units int64) (left []Unit, missing int64) {
	left = slices.Clone(past)
	for j := range left {
		if u := &left[j]; l.together(u.At, at) {
			taken := min(units, u.N)
			u.N, units = u.N-taken, units-taken
		}
	}
	return left, units
}

func (l Limit) together(a, b int64) bool {
	return l.definition().begun(l, a) == l.definition().begun(l, b)
}

// Ask returns the answer to a request of a client, what the client has used after it, and when the request is counted.
// It panics if a window holds more than the algorithm promises after that.
func (r Rule) Ask(c Client, now, cost int64, verb Verb) (answer Answer, after Client, stamp int64) {
	after, stamp = make(Client, len(r.Limits)), now
	for i, l := range r.Limits {
		after[i] = c[i]
		if begun := l.begun(c[i]); begun-now > r.Allowance { // the clock has stepped back
			after[i] = l.definition().admit(l, nil, now, now, l.used(c[i], now, begun))
		}
		stamp = max(stamp, l.begun(after[i]))
	}
	for i, l := range r.Limits {
		one := l.decide(after[i], now, stamp, cost, verb)
		if i == 0 || one.binds(answer) {
			answer = one
		}
	}
	if verb == Peek || cost == 0 {
		return answer, c, now
	}
	if !answer.Admitted {
		return answer, after, now
	}
	for i, l := range r.Limits {
		after[i] = l.definition().admit(l, after[i], now, stamp, cost)
		if verb == Take {
			l.hold(after[i], stamp)
		}
	}
	return answer, after, stamp
}

// hold panics if the window that ends at a time holds more than the algorithm promises.
func (l Limit) hold(past []Unit, end int64) {
	held := int64(0)
	for _, u := range past {
		if u.At > end-l.W && u.At <= end {
			held += u.N
		}
	}
	if held > l.definition().most(l, past, end) {
		panic(fmt.Sprintf("by the definition %+v holds %v", l, past))
	}
}

// Return takes units back of a request that was admitted at a time and of which cost is left, and returns how many of
// them count no more.
func (r Rule) Return(c Client, now, at, cost, units int64) (least int64, after Client) {
	least, after = units, slices.Clone(c)
	for i, l := range r.Limits {
		counts := func(u Unit) bool { return u.N+u.Owed > 0 && l.counts(c[i], u.At, now) }
		if !l.counts(c[i], at, now) || !slices.ContainsFunc(c[i], counts) {
			continue
		}
		var missing int64
		after[i], missing = l.definition().giveBack(l, c[i], at, cost, units)
		least = min(least, units-missing)
	}
	return least, after
}

// Expired reports whether units of a client that may count at one time may not at a later one.
func (r Rule) Expired(c Client, from, to int64) bool {
	for i, l := range r.Limits {
		for _, u := range c[i] {
			if l.counts(c[i], u.At, from) && !l.counts(c[i], u.At, to) {
				return true
			}
		}
	}
	return false
}

// AppendKey appends what is the same for clients that have used the same, seen from now. What is older than an age
// counts for nothing.
func (c Client) AppendKey(key []byte, now, age int64) []byte {
	for _, past := range c {
		for _, u := range past {
			if u.At > now-age {
				for _, n := range []int64{u.At - now, u.N, u.Of.N, u.Of.W, u.Owed, u.Free} {
					key = binary.AppendVarint(key, n)
				}
			}
		}
		key = binary.AppendVarint(key, 1<<60)
	}
	return key
}

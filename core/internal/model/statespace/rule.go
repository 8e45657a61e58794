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

// Unit is an entry of N units admitted at one time. A bucket's entry also has the limit.
type Unit struct {
	At, N   int64
	Limit   Limit
	Owed    int64 // of the first entry of a bucket, as is Elapsed
	Elapsed int64
}

// Client holds the admitted units of a client that may still count, by limit of a rule.
type Client [][]Unit

// Rule is a set of limits that all apply.
type Rule struct {
	Limits      []Limit
	AllowedLead int64 // largest distance of a counted time ahead of the clock
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

// definition defines an algorithm in the simplest way. Each has its own file.
type definition interface {
	// minStamp returns the earliest time at which a further unit counts, given the newest unit.
	minStamp(l Limit, newest int64) int64

	// used returns the number of units that count at now, for a request counted at stamp.
	used(l Limit, entries []Unit, now, stamp int64) int64

	// counts reports whether units admitted at at may still count at now.
	counts(l Limit, entries []Unit, at, now int64) bool

	// admit returns entries with n more units at at. It may drop units that no longer count at now, even if the clock
	// steps back later.
	admit(l Limit, entries []Unit, now, at, n int64) []Unit

	// resetAfter returns the ResetAfter of entries with used units.
	resetAfter(l Limit, entries []Unit, now, stamp, used int64) int64

	// takeBack returns the entries without some units of a request admitted at at, which may count and has cost units
	// left, and the number of units that it did not find.
	takeBack(l Limit, entries []Unit, at, cost, units int64) (left []Unit, missing int64)

	// maxUsed returns the largest number of units in the window that ends at end, the time of an admission.
	maxUsed(l Limit, entries []Unit, end int64) int64
}

var definitions = map[core.Algorithm]definition{}

func (l Limit) definition() definition { return definitions[l.Algorithm] }

// minStamp returns the earliest time at which a further unit counts.
func (l Limit) minStamp(entries []Unit) (at int64) {
	for _, u := range entries {
		at = max(at, u.At)
	}
	return l.definition().minStamp(l, at)
}

// Used returns the number of units that count at now.
func (l Limit) Used(entries []Unit, now int64) int64 {
	return l.used(entries, now, max(now, l.minStamp(entries)))
}

func (l Limit) used(entries []Unit, now, stamp int64) int64 {
	return l.definition().used(l, entries, now, stamp)
}

func (l Limit) counts(entries []Unit, at, now int64) bool {
	return l.definition().counts(l, entries, at, now)
}

// timeUntil returns the time from now until ok holds, and stays so, since the used units never grow with time.
func (l Limit) timeUntil(entries []Unit, now, stamp int64, ok func(used int64) bool) int64 {
	return int64(sort.Search(int(stamp-now+100*l.W), func(d int) bool {
		t := now + int64(d)
		return ok(l.used(entries, t, max(t, stamp)))
	}))
}

// decide returns the answer of one limit.
func (l Limit) decide(entries []Unit, now, stamp, cost int64, verb Verb) Answer {
	used := l.used(entries, now, stamp)
	a := Answer{Admitted: cost == 0 || verb == Charge || cost <= l.N-used}
	switch {
	case a.Admitted:
		entries = l.definition().admit(l, entries, now, stamp, cost)
		used += cost
	case cost > l.N:
		a.RetryAfter = Never
	default:
		a.RetryAfter = l.timeUntil(entries, now, stamp, func(used int64) bool { return used+cost <= l.N })
	}
	a.Remaining = max(0, l.N-used)
	if used > 0 {
		a.ResetAfter = l.definition().resetAfter(l, entries, now, stamp, used)
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

// unitLog is the common part of the definitions that keep an entry for each time, or slot of times.
type unitLog struct{}

func (unitLog) admit(l Limit, entries []Unit, now, at, n int64) []Unit {
	entries = slices.DeleteFunc(slices.Clone(entries), func(u Unit) bool { return !l.counts(entries, u.At, now) })
	if last := len(entries) - 1; last >= 0 && l.sameSlot(entries[last].At, at) {
		entries[last] = Unit{At: at, N: entries[last].N + n}
		return entries
	}
	return append(entries, Unit{At: at, N: n})
}

// takeBack may leave entries of 0 units.
func (unitLog) takeBack(l Limit, entries []Unit, at, _, units int64) (left []Unit, missing int64) {
	left = slices.Clone(entries)
	for j := range left {
		if u := &left[j]; l.sameSlot(u.At, at) {
			taken := min(units, u.N)
			u.N, units = u.N-taken, units-taken
		}
	}
	return left, units
}

func (l Limit) sameSlot(a, b int64) bool {
	return l.definition().minStamp(l, a) == l.definition().minStamp(l, b)
}

// Ask returns the answer to a request of a client, the client after it, and the time at which the request is counted.
// It panics if a window then holds more than the algorithm allows.
func (r Rule) Ask(c Client, now, cost int64, verb Verb) (answer Answer, after Client, stamp int64) {
	after, stamp = make(Client, len(r.Limits)), now
	for i, l := range r.Limits {
		after[i] = c[i]
		if minStamp := l.minStamp(c[i]); minStamp-now > r.AllowedLead { // the clock has stepped back
			after[i] = l.definition().admit(l, nil, now, now, l.used(c[i], now, minStamp))
		}
		stamp = max(stamp, l.minStamp(after[i]))
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
			l.checkWindow(after[i], stamp)
		}
	}
	return answer, after, stamp
}

// checkWindow panics if the window that ends at end holds more than the algorithm allows.
func (l Limit) checkWindow(entries []Unit, end int64) {
	held := int64(0)
	for _, u := range entries {
		if u.At > end-l.W && u.At <= end {
			held += u.N
		}
	}
	if held > l.definition().maxUsed(l, entries, end) {
		panic(fmt.Sprintf("by the definition %+v holds %v", l, entries))
	}
}

// Return takes back units of a request admitted at at that has cost units left, and returns the number that no longer
// count.
func (r Rule) Return(c Client, now, at, cost, units int64) (least int64, after Client) {
	least, after = units, slices.Clone(c)
	for i, l := range r.Limits {
		counts := func(u Unit) bool { return u.N+u.Owed > 0 && l.counts(c[i], u.At, now) }
		if !l.counts(c[i], at, now) || !slices.ContainsFunc(c[i], counts) {
			continue
		}
		var missing int64
		after[i], missing = l.definition().takeBack(l, c[i], at, cost, units)
		least = min(least, units-missing)
	}
	return least, after
}

// Expired reports whether any units of a client stop counting between from and to.
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

// AppendKey appends a key that is equal for clients with the same units relative to now. It omits units older than age.
func (c Client) AppendKey(key []byte, now, age int64) []byte {
	for _, entries := range c {
		for _, u := range entries {
			if u.At > now-age {
				for _, n := range []int64{u.At - now, u.N, u.Limit.N, u.Limit.W, u.Owed, u.Elapsed} {
					key = binary.AppendVarint(key, n)
				}
			}
		}
		key = binary.AppendVarint(key, 1<<60)
	}
	return key
}

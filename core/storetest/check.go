package storetest

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Outcome is one decision on one client: its time, its answer, and its cost.
type Outcome struct {
	At      time.Time // Decision.At, or when a request was made whose answer is not known
	Allowed bool
	Cost    int64
	Until   time.Time // unless zero, the answer is not known: the request was counted between At and Until, or never
}

// Violations is the error of [CheckLogs].
type Violations struct {
	Above   int // admissions that brought a window above a limit
	Refused int // requests that were refused while there was room
	first   string
}

func (v *Violations) Error() string {
	return fmt.Sprintf("%s; in all %d admissions above a limit, and %d refusals while there was room",
		v.first, v.Above, v.Refused)
}

func (v *Violations) add(kind *int, format string, args ...any) {
	if *kind++; v.first == "" {
		v.first = fmt.Sprintf(format, args...)
	}
}

// CheckLogs holds all decisions that were made on one client, in any order and
// from any number of processes, against the promise of SlidingLogs, CoarseLogs and Buckets: no window
// holds more than a limit, no stretch more than a Bucket lets pass in it, and no request was refused while all limits
// had room. A request
// whose answer is not known counts as admitted where a refusal is judged. CheckLogs returns
// nil or a [*Violations], and may reorder outcomes.
func CheckLogs(outcomes []Outcome, limits ...core.Limit) error {
	slices.SortFunc(outcomes, byTime)
	var admitted, unknown []Outcome
	for _, o := range outcomes {
		switch {
		case !o.Until.IsZero():
			unknown = append(unknown, o)
		case o.Allowed:
			admitted = append(admitted, o)
		}
	}
	var uses []use
	for _, l := range limits {
		uses = append(uses, useOf(l, admitted, unknown))
	}
	var wrong Violations
	for _, o := range outcomes {
		switch {
		case !o.Until.IsZero():
		case o.Allowed:
			if i := slices.IndexFunc(uses, func(u use) bool { return u.known(o.At) > u.Requests }); i >= 0 {
				wrong.add(&wrong.Above, "%d units admitted in the %v that end at %v: the limit is %d",
					uses[i].known(o.At), uses[i].Window, o.At.Format(time.StampMicro), uses[i].Requests)
			}
		case !slices.ContainsFunc(uses, func(u use) bool { return u.most(o.At)+o.Cost > u.Requests }):
			wrong.add(&wrong.Refused, "a cost of %d was refused at %v while there was room",
				o.Cost, o.At.Format(time.StampMicro))
		}
	}
	if wrong == (Violations{}) {
		return nil
	}
	return &wrong
}

func byTime(a, b Outcome) int { return a.At.Compare(b.At) }

// use tells how many units of a limit are used at a time.
type use struct {
	core.Limit
	known func(time.Time) int64 // for an admission
	most  func(time.Time) int64 // for a refusal, if all that is not known was counted, and as late as it can have been
}

// useOf returns the use of a limit by outcomes, which are in order.
func useOf(l core.Limit, admitted, unknown []Outcome) use {
	// The longest for which a unit counts.
	epoch := window.Limit{W: l.Window.Microseconds(), Algorithm: l.Algorithm}.Epoch()
	longest := time.Duration(epoch) * time.Microsecond
	known, most := held(admitted, l.Window), held(admitted, longest)
	if l.Algorithm.Linear() {
		all := slices.Clone(admitted)
		for _, u := range unknown {
			all = append(all, Outcome{At: u.Until, Cost: u.Cost})
		}
		slices.SortStableFunc(all, byTime)
		known, most, longest = level(l, admitted), level(l, all), 0
	}
	return use{l, known, func(t time.Time) int64 {
		units := most(t)
		for _, u := range unknown {
			if u.Until.After(t.Add(-longest)) && !u.At.After(t) {
				units += u.Cost
			}
		}
		return units
	}}
}

// held returns what tells how many units were admitted in the window that ends at a time. The number grows only at an
// admission, so it is enough to look at windows that end at one.
func held(admitted []Outcome, window time.Duration) func(time.Time) int64 {
	totals := []int64{0} // totals[i] is the cost of the first i admissions
	for _, o := range admitted {
		totals = append(totals, totals[len(totals)-1]+o.Cost)
	}
	return func(t time.Time) int64 { return totals[until(admitted, t)] - totals[until(admitted, t.Add(-window))] }
}

// level returns what tells how much of a Bucket is used at a time.
func level(l core.Limit, outcomes []Outcome) func(time.Time) int64 {
	limit, levels := window.Limit{N: l.Requests, W: l.Window.Microseconds()}, []window.Bucket{{}}
	for i, o := range outcomes {
		next := levels[i].On(o.At.UnixMicro()).Take(limit, o.Cost)
		next.At = o.At.UnixMicro()
		levels = append(levels, next)
	}
	return func(t time.Time) int64 { return levels[until(outcomes, t)].On(t.UnixMicro()).Used(limit) }
}

// until returns how many outcomes, which are in order, are not after a time.
func until(outcomes []Outcome, t time.Time) int {
	return sort.Search(len(outcomes), func(i int) bool { return outcomes[i].At.After(t) })
}

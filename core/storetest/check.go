package storetest

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Outcome is the time, answer and cost of one decision on one client.
type Outcome struct {
	At      time.Time // Decision.At, or the time of the request if the answer is unknown
	Allowed bool
	Cost    int64
	Until   time.Time // if not zero, the answer is unknown: the request was counted between At and Until, or never
}

// Violations is the error of [CheckLogs].
type Violations struct {
	Above   int // admissions that brought a window above a limit
	Refused int // requests that were refused although all limits had room
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

// CheckLogs checks all decisions on one client, in any order and from any number of processes, against the promise of
// SlidingLog, CoarseLog and Bucket: no window holds more than a limit, no interval more than a Bucket admits in it, and
// no request is refused while all limits have room. A request with an unknown answer counts as admitted where that
// justifies a refusal. CheckLogs returns nil or a [*Violations]. It may reorder outcomes.
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
	var usages []usage
	for _, l := range limits {
		usages = append(usages, newUsage(l, admitted, unknown))
	}
	var wrong Violations
	for _, o := range outcomes {
		switch {
		case !o.Until.IsZero():
		case o.Allowed:
			if i := slices.IndexFunc(usages, func(u usage) bool { return u.lowest(o.At) > u.Requests }); i >= 0 {
				wrong.add(&wrong.Above, "%d units admitted in the %v that end at %v: the limit is %d",
					usages[i].lowest(o.At), usages[i].Window, o.At.Format(time.StampMicro), usages[i].Requests)
			}
		case !slices.ContainsFunc(usages, func(u usage) bool { return u.highest(o.At)+o.Cost > u.Requests }):
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

// usage returns the bounds of the used units of a limit at a time.
type usage struct {
	core.Limit
	lowest  func(time.Time) int64 // without unknown outcomes: for an admission
	highest func(time.Time) int64 // with all of them, counted as late as possible: for a refusal
}

// newUsage returns the usage of a limit. The outcomes are in order.
func newUsage(l core.Limit, admitted, unknown []Outcome) usage {
	// the longest time that a unit counts
	epoch := window.Limit{W: l.Window.Microseconds(), Algorithm: l.Algorithm}.Epoch()
	longest := time.Duration(epoch) * time.Microsecond
	lowest, highest := unitsInWindow(admitted, l.Window), unitsInWindow(admitted, longest)
	if l.Algorithm.IsLinear() {
		all := slices.Clone(admitted)
		for _, u := range unknown {
			all = append(all, Outcome{At: u.Until, Cost: u.Cost})
		}
		slices.SortStableFunc(all, byTime)
		lowest, highest, longest = level(l, admitted), level(l, all), 0
	}
	return usage{l, lowest, func(t time.Time) int64 {
		units := highest(t)
		for _, u := range unknown {
			if u.Until.After(t.Add(-longest)) && !u.At.After(t) {
				units += u.Cost
			}
		}
		return units
	}}
}

// unitsInWindow returns a function that returns the units admitted in the window that ends at a time. The number grows
// only at an admission, so windows that end at one suffice.
func unitsInWindow(admitted []Outcome, window time.Duration) func(time.Time) int64 {
	totals := []int64{0} // totals[i] is the cost of the first i admissions
	for _, o := range admitted {
		totals = append(totals, totals[len(totals)-1]+o.Cost)
	}
	return func(t time.Time) int64 {
		return totals[countUntil(admitted, t)] - totals[countUntil(admitted, t.Add(-window))]
	}
}

// level returns a function that returns the used units of a Bucket at a time.
func level(l core.Limit, outcomes []Outcome) func(time.Time) int64 {
	limit, levels := window.Limit{N: l.Requests, W: l.Window.Microseconds()}, []window.Bucket{{}}
	for i, o := range outcomes {
		next := levels[i].AsOf(o.At.UnixMicro()).Take(limit, o.Cost)
		next.At = o.At.UnixMicro()
		levels = append(levels, next)
	}
	return func(t time.Time) int64 { return levels[countUntil(outcomes, t)].AsOf(t.UnixMicro()).Used(limit) }
}

// countUntil returns the number of outcomes that are not after a time. The outcomes are in order.
func countUntil(outcomes []Outcome, t time.Time) int {
	return sort.Search(len(outcomes), func(i int) bool { return outcomes[i].At.After(t) })
}

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
	slices.SortFunc(outcomes, func(a, b Outcome) int { return a.At.Compare(b.At) })
	a := admissions{totals: []int64{0}}
	for _, o := range outcomes {
		switch {
		case !o.Until.IsZero():
			a.unknown = append(a.unknown, o)
		case o.Allowed:
			a.at = append(a.at, o.At)
			a.totals = append(a.totals, a.totals[len(a.totals)-1]+o.Cost)
		}
	}
	for _, l := range limits {
		a.fill(l)
	}
	var wrong Violations
	for _, o := range outcomes {
		switch {
		case !o.Until.IsZero():
		case o.Allowed:
			for i, l := range limits {
				if n := a.count(i, l, o.At); n > l.Requests {
					wrong.add(&wrong.Above, "%d units admitted in the %v that end at %v: the limit is %d",
						n, l.Window, o.At.Format(time.StampMicro), l.Requests)
					break
				}
			}
		case !a.anyFull(limits, o):
			wrong.add(&wrong.Refused, "a cost of %d was refused at %v while there was room",
				o.Cost, o.At.Format(time.StampMicro))
		}
	}
	if wrong == (Violations{}) {
		return nil
	}
	return &wrong
}

// admissions holds the requests admitted to one client, in order, and those of unknown outcome.
type admissions struct {
	at      []time.Time
	totals  []int64 // totals[i] is the cost of the first i admissions
	unknown []Outcome
	levels  [][]point // by limit, where units come back evenly
	most    [][]point // the same, if all that is not known was counted, and as late as it can have been
}

// point is what is used of a bucket after an admission.
type point struct {
	at    time.Time
	level window.Bucket
}

// points returns the points of a limit after outcomes, which are in order.
func points(l core.Limit, outcomes []Outcome) (all []point) {
	limit, level := window.Limit{N: l.Requests, W: l.Window.Microseconds()}, window.Bucket{}
	for _, o := range outcomes {
		at := o.At.UnixMicro()
		level = level.On(at, limit.W).Take(limit, o.Cost)
		level.At = at
		all = append(all, point{o.At, level})
	}
	return all
}

// fill adds the points of a limit.
func (a *admissions) fill(l core.Limit) {
	if !l.Algorithm.Even() {
		a.levels, a.most = append(a.levels, nil), append(a.most, nil)
		return
	}
	var known []Outcome
	for i, at := range a.at {
		known = append(known, Outcome{At: at, Cost: a.totals[i+1] - a.totals[i]})
	}
	all := slices.Clone(known)
	for _, u := range a.unknown {
		all = append(all, Outcome{At: u.Until, Cost: u.Cost})
	}
	slices.SortStableFunc(all, func(a, b Outcome) int { return a.At.Compare(b.At) })
	a.levels, a.most = append(a.levels, points(l, known)), append(a.most, points(l, all))
}

// usedAt returns how much of a limit is used at t, by its points.
func usedAt(l core.Limit, all []point, t time.Time) int64 {
	i := sort.Search(len(all), func(i int) bool { return all[i].at.After(t) })
	if i == 0 {
		return 0
	}
	return all[i-1].level.On(t.UnixMicro(), l.Window.Microseconds()).Used()
}

// count returns how many units count under limit i at an admission at t.
func (a *admissions) count(i int, l core.Limit, t time.Time) int64 {
	if l.Algorithm.Even() {
		return usedAt(l, a.levels[i], t)
	}
	return a.used(t, l.Window)
}

// anyFull reports whether some limit may have had no room for o.
func (a *admissions) anyFull(limits []core.Limit, o Outcome) bool {
	for i, l := range limits {
		if a.full(i, l, o) {
			return true
		}
	}
	return false
}

// used returns the units admitted in (t-window, t]. The number grows only at an
// admission, so it is enough to look at windows that end at one.
func (a *admissions) used(t time.Time, window time.Duration) int64 {
	from := sort.Search(len(a.at), func(i int) bool { return a.at[i].After(t.Add(-window)) })
	to := sort.Search(len(a.at), func(i int) bool { return a.at[i].After(t) })
	return a.totals[to] - a.totals[from]
}

// full reports whether limit i may have had no room for o.
func (a *admissions) full(i int, l core.Limit, o Outcome) bool {
	// The longest for which a unit counts.
	epoch := window.Limit{W: l.Window.Microseconds(), Algorithm: l.Algorithm}.Epoch()
	longest := time.Duration(epoch) * time.Microsecond
	units := o.Cost
	if l.Algorithm.Even() {
		units += usedAt(l, a.most[i], o.At)
		longest = 0
	} else {
		units += a.used(o.At, longest)
	}
	for _, u := range a.unknown {
		if u.Until.After(o.At.Add(-longest)) && !u.At.After(o.At) {
			units += u.Cost
		}
	}
	return units > l.Requests
}

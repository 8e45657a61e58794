package storetest

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sashlimit/sash/core"
)

// Outcome is one decision on one client: its time, its answer, and its cost.
type Outcome struct {
	At      time.Time // Decision.At
	Allowed bool
	Cost    int64
}

// CheckLogs holds all decisions that were made on one client, in any order and
// from any number of processes, against the promise of SlidingLogs: no window
// holds more than a limit, and no request was refused while all limits had room.
// It returns nil or the first violation. It may reorder outcomes.
func CheckLogs(outcomes []Outcome, limits ...core.Limit) error {
	slices.SortFunc(outcomes, func(a, b Outcome) int { return a.At.Compare(b.At) })
	var at []time.Time   // of admissions
	totals := []int64{0} // totals[i] is the cost of the first i admissions
	for _, o := range outcomes {
		if o.Allowed {
			at = append(at, o.At)
			totals = append(totals, totals[len(totals)-1]+o.Cost)
		}
	}
	// used returns the units admitted in (t-window, t]. The number grows only at an
	// admission, so it is enough to look at windows that end at one.
	used := func(t time.Time, window time.Duration) int64 {
		from := sort.Search(len(at), func(i int) bool { return at[i].After(t.Add(-window)) })
		to := sort.Search(len(at), func(i int) bool { return at[i].After(t) })
		return totals[to] - totals[from]
	}
	for _, o := range outcomes {
		room := true
		for _, l := range limits {
			n := used(o.At, l.Window)
			if o.Allowed && n > l.Requests {
				return fmt.Errorf("%d units admitted in the %v that end at %v: the limit is %d",
					n, l.Window, o.At.Format(time.StampMicro), l.Requests)
			}
			room = room && n+o.Cost <= l.Requests
		}
		if !o.Allowed && room {
			return fmt.Errorf("a cost of %d was refused at %v while there was room",
				o.Cost, o.At.Format(time.StampMicro))
		}
	}
	return nil
}

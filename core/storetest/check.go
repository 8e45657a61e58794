package storetest

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sashlimit/sash/core"
)

// Outcome is one decision on one client: when, what, and for how much.
type Outcome struct {
	At      time.Time // Decision.At
	Allowed bool
	Cost    int64
}

// CheckLog holds all decisions that were made on one client, in any order and
// from any number of processes, against the promise of a SlidingLog: no window
// holds more than the limit, and nobody was refused while there was room. It
// returns nil or the first violation. It may reorder outcomes.
func CheckLog(limit core.Limit, outcomes []Outcome) error {
	slices.SortFunc(outcomes, func(a, b Outcome) int { return a.At.Compare(b.At) })
	var at []time.Time   // of admissions
	totals := []int64{0} // totals[i] is the cost of the first i admissions
	for _, o := range outcomes {
		if o.Allowed {
			at = append(at, o.At)
			totals = append(totals, totals[len(totals)-1]+o.Cost)
		}
	}
	// used is what (t-W, t] holds. It grows only at an admission, so it is
	// enough to look at windows that end at one.
	used := func(t time.Time) int64 {
		from := sort.Search(len(at), func(i int) bool { return at[i].After(t.Add(-limit.Window)) })
		to := sort.Search(len(at), func(i int) bool { return at[i].After(t) })
		return totals[to] - totals[from]
	}
	for _, t := range at {
		if n := used(t); n > limit.Requests {
			return fmt.Errorf("%d units admitted in the %v that end at %v: the limit is %d", n, limit.Window, t.Format(time.StampMicro), limit.Requests)
		}
	}
	for _, o := range outcomes {
		if n := used(o.At); !o.Allowed && n+o.Cost <= limit.Requests {
			return fmt.Errorf("a cost of %d was refused at %v with %d of %d used", o.Cost, o.At.Format(time.StampMicro), n, limit.Requests)
		}
	}
	return nil
}

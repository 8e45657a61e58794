package regions

import (
	"fmt"
	"slices"
	"sort"
	"testing"
	"testing/synctest"
	"time"
)

// ledgerOf holds the admissions of a region in the order of their time, with running totals.
type ledgerOf struct {
	at     []time.Time
	totals []int64
}

// units returns how many were admitted after from and not after to.
func (l *ledgerOf) units(from, to time.Time) int64 {
	i := sort.Search(len(l.at), func(i int) bool { return l.at[i].After(from) })
	j := sort.Search(len(l.at), func(i int) bool { return l.at[i].After(to) })
	return l.totals[max(i, j)] - l.totals[i]
}

// byRegion returns the admissions by region.
func (w *world) byRegion() []ledgerOf {
	slices.SortFunc(w.used, func(a, b admission) int { return a.at.Compare(b.at) })
	all := make([]ledgerOf, len(w.servers))
	for i := range all {
		all[i].totals = []int64{0}
	}
	for _, a := range w.used {
		l := &all[a.region]
		l.at, l.totals = append(l.at, a.at), append(l.totals, l.totals[len(l.totals)-1]+a.units)
	}
	return all
}

// checkTheorem holds every admission against Theorem E: what its region has admitted in the window that ends with it, and
// the others until the looks that it was decided by, is at most the limit. Clocks that go at other paces make a window
// shorter by a thousandth. It returns the most units that a window holds in all regions.
func (w *world) checkTheorem() (most int64, err error) {
	all := w.byRegion()
	for _, a := range w.used {
		begin := a.at.Add(-w.limit.Window * 999 / 1000)
		var whole, known int64
		for i := range all {
			units := all[i].units(begin, a.at)
			whole += units
			switch {
			case i == a.region:
				known += units
			case a.looks != nil:
				known += all[i].units(begin, a.looks[i])
			}
		}
		most = max(most, whole)
		if known > w.limit.Requests {
			return most, fmt.Errorf("region %d admitted at %v, by what it knew, as number %d of %d",
				a.region, a.at.Format(time.StampMicro), known, w.limit.Requests)
		}
	}
	return most, nil
}

// TestEventualHistories: each admission keeps Theorem E.
func TestEventualHistories(t *testing.T) {
	const parts = 4
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			var used, refused, failures, above int
			worst := 0.0
			for seed := part; seed < histories(); seed += parts {
				synctest.Test(t, func(t *testing.T) {
					w := randomWorld(seed, false)
					most, err := w.checkTheorem()
					if err != nil {
						t.Fatalf("seed %d, %d regions: %v", seed, len(w.servers), err)
					}
					if most > w.limit.Requests {
						above++
					}
					worst = max(worst, float64(most)/float64(w.limit.Requests))
					used += len(w.used)
					refused += w.refused
					failures += w.failures
				})
			}
			t.Logf("%d admitted, %d refused, %d failed; %d histories with a window above the limit, at most %.2f of it",
				used, refused, failures, above, worst)
			if refused < used/10 || above == 0 {
				t.Error("too one-sided to prove anything")
			}
		})
	}
}

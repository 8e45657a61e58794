package regions

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// admissions are the admissions of a region in the order of their time, with running totals.
type admissions struct {
	at     []time.Time
	totals []int64
}

// logsOf returns the admissions of each region.
func logsOf(used []admission, regions int) []admissions {
	slices.SortFunc(used, func(a, b admission) int { return a.at.Compare(b.at) })
	all := make([]admissions, regions)
	for i := range all {
		all[i].totals = []int64{0}
	}
	for _, a := range used {
		l := &all[a.region]
		l.at, l.totals = append(l.at, a.at), append(l.totals, l.totals[len(l.at)]+a.units)
	}
	return all
}

// units returns how many were admitted after from and not after to.
func (l *admissions) units(from, to time.Time) int64 {
	i := sort.Search(len(l.at), func(i int) bool { return l.at[i].After(from) })
	j := sort.Search(len(l.at), func(i int) bool { return l.at[i].After(to) })
	return l.totals[max(i, j)] - l.totals[i]
}

// checkTheorem checks every admission against Theorem E: the units that its region has admitted in the window that ends
// with it, the others until the polls that decided it, and the shares of regions without a poll in the 2 s and a
// PollInterval before it was sent, is at most the limit; or it is within the share of its region. Clocks that go at
// other paces make a window shorter by a thousandth. It returns the most units that a window holds in all regions.
func (w *simulation) checkTheorem(limit core.Limit) (most int64, err error) {
	all := logsOf(w.used, len(w.servers))
	for _, a := range w.used {
		begin := a.at.Add(-limit.Window * 999 / 1000)
		var whole, known, withheld int64
		for i := range all {
			units := all[i].units(begin, a.at)
			whole += units
			switch {
			case i == a.region:
				known, withheld = known+units, withheld+units
			case a.polls != nil:
				seen := all[i].units(begin, a.polls[i].ran)
				known += seen
				if a.sent.Sub(a.polls[i].sent) <= silentAfter+defaultPollInterval {
					withheld += seen
				} else {
					withheld += share(limit.Requests, i, len(all))
				}
			}
		}
		most = max(most, whole)
		own := all[a.region].units(begin, a.at)
		unseen := !w.alone && own > share(limit.Requests, a.region, len(all)) && withheld > limit.Requests
		if known > limit.Requests || unseen {
			return most, fmt.Errorf("region %d admitted at %v, as number %d of its own, %d by what it knew and %d "+
				"with the shares of regions that it has not seen for 2 s, of %d",
				a.region, a.at.Format(time.StampMicro), own, known, withheld, limit.Requests)
		}
	}
	return most, nil
}

// parts is how many parallel subtests share the histories of a mode.
const parts = 4

// testHistories goes through random histories, each admission of which keeps the theorem, and, if strict, each limit.
// All together must have had the usual things, and some others. The first twelfth of them, eight,
// are of all kinds of traffic; the further ones are the rest.
func testHistories(t *testing.T, strict, further bool, others ...string) {
	var mu sync.Mutex
	events := map[string]int{}
	t.Cleanup(func() { // when all parts have ended
		t.Log(events)
		t.Logf("proved: %s, -seed %d: %d histories, %d admitted, %d refused, %d failed, %d messages lost, %d crashes",
			t.Name(), *first, events["histories"], events["admitted"], events["refused"],
			events["failed"], events["lost"], events["crashes"])
		for _, thing := range slices.Concat(required, others) {
			if events[thing] == 0 && events["histories"] >= 75 {
				t.Errorf("too one-sided to prove anything: no history had %q", thing)
			}
		}
	})
	n := uint64(100)
	switch {
	case *long:
		n = 2000
	case *first > 0:
		n = 1
	}
	begin, end := *first, *first+max(1, n/12)
	if further {
		begin, end = end, *first+n
	}
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := begin + part; seed < end; seed += parts {
				synctest.Test(t, func(t *testing.T) {
					w := randomSimulation(seed, strict)
					for _, limit := range w.limits {
						most, err := w.checkTheorem(limit)
						if most > limit.Requests {
							w.events["above a limit"]++
						}
						if err != nil || strict && most > limit.Requests {
							t.Fatalf("-seed %d, %d regions: %d admitted, want %d: %v",
								seed, len(w.servers), most, limit.Requests, err)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					events["histories"]++
					for what, n := range w.events {
						events[what] += n
					}
				})
			}
		})
	}
}

// TestEventualHistories: each admission keeps Theorem E.
func TestEventualHistories(t *testing.T) { testHistories(t, false, false, "above a limit") }

// TestStrictHistories: in no window do all regions together admit more than a limit, by true time.
func TestStrictHistories(t *testing.T) { testHistories(t, true, false, "admitted elsewhere", "leased") }

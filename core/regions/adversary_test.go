//go:build !race && !short

package regions

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core/internal/model/worlds"
)

// TestAdversary searches the bursts that make three regions admit most in a minute. A strict limit is never exceeded,
// and each admission keeps Theorem E.
func TestAdversary(t *testing.T) {
	tries := 25
	if flag.Lookup("long").Value.String() == "true" {
		tries = 600
	}
	const seed = 1
	worst := map[bool]int64{}
	for _, strict := range []bool{false, true} {
		score := func(arrivals []worlds.Arrival) (most int64) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrio(strict, false)
				began := time.Now()
				for _, a := range arrivals {
					time.Sleep(time.Until(began.Add(time.Duration(a.At) * time.Millisecond)))
					tr.burst(a.Place, a.N)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				var err error
				if most, err = tr.checkTheorem(tr.limits[0]); err != nil {
					t.Errorf("strict %v, %v: %v", strict, arrivals, err)
				}
			})
			return most
		}
		_, worst[strict] = worlds.Climb(seed, tries, 90_000, 100, 3, score)
	}
	if worst[true] > 100 || worst[false] > 300 || worst[false] <= 100 {
		t.Errorf("%d in a minute, strict %d: want 101 to 300, and 100 at most", worst[false], worst[true])
	}
	t.Logf("proved: limit 100 a minute in three regions, at most %d in a minute by the default and %d by strict; "+
		"each admission kept the theorem; seed %d, %d tries each", worst[false], worst[true], seed, tries)
}

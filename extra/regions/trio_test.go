package regions

import (
	"math/rand/v2"
	"time"

	"github.com/sashlimit/sash/core"
)

// trio is three regions of a process each, 75 ms from each other, under a limit of 100 a minute: what the tables of
// docs/regions.md are made of.
type trio struct {
	*simulation
	processes []*process
	mayWait   bool // a request, for a region that is cut off
}

func newTrio(strict, alone bool) *trio {
	w := newSimulation(rand.New(rand.NewPCG(1, 2)), 3, core.Per(100, time.Minute).Named("limit"))
	w.loses, w.strict, w.alone, w.leases = 0, strict, alone, false
	tr := &trio{simulation: w}
	w.eachWay(func(time.Duration) time.Duration { return 75 * ms })
	tr.boot()
	return tr
}

// boot starts a process in each region, in place of those that there are.
func (tr *trio) boot() {
	tr.processes = nil
	for i := range tr.servers {
		tr.processes = append(tr.processes, &process{simulation: tr.simulation, region: i})
		tr.processes[i].boot()
	}
}

// burst makes so many requests at once in a region.
func (tr *trio) burst(region, n int) {
	for range n {
		go tr.processes[region].take(1, 500*ms)
	}
}

//go:build !race && !short

package regions

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// bursts makes n requests at once in each region.
func (tr *trio) bursts(n int) {
	for region := range tr.processes {
		tr.burst(region, n)
	}
}

// steadyInAll makes requests at an interval in each region, for two minutes and a half.
func (tr *trio) steadyInAll(each ...time.Duration) {
	var group sync.WaitGroup
	for region := range each {
		group.Go(func() { tr.steady(region, each[region], 150*time.Second) })
	}
	group.Wait()
}

// cutOff cuts a region off, or mends that.
func (tr *trio) cutOff(region int, cut bool) {
	for other := range tr.processes {
		if other != region {
			tr.setCut(region, other, true, cut)
		}
	}
}

// steady makes requests at an interval for a while.
func (tr *trio) steady(region int, each, lasts time.Duration) {
	time.Sleep(time.Duration(region) * each / 3)
	for start := time.Now(); time.Since(start) < lasts; time.Sleep(each) {
		tr.burst(region, 1)
	}
}

// traffics are the kinds of traffic in docs/regions.md, by name.
var traffics = []struct {
	name string
	run  func(tr *trio)
}{
	{"10 a second in one region", func(tr *trio) { tr.steady(0, 100*ms, 150*time.Second) }},
	{"10 a second in each", func(tr *trio) { tr.steadyInAll(100*ms, 100*ms, 100*ms) }},
	{"10 a second here, one in 5 s and in 7 s there", func(tr *trio) { tr.steadyInAll(100*ms, 5000*ms, 7000*ms) }},
	{"200 at once in one region, from rest", func(tr *trio) { tr.burst(0, 200) }},
	{"200 at once in each region, from rest", func(tr *trio) { tr.bursts(200) }},
	{"the same, by two processes in each", func(tr *trio) {
		second := &trio{simulation: tr.simulation}
		second.boot()
		second.bursts(200)
		tr.bursts(200)
	}},
	{"200 at once in each, a second after four requests each", func(tr *trio) {
		tr.bursts(4)
		time.Sleep(time.Second)
		tr.bursts(200)
	}},
	{"200 at once in each region, beside 1,500 other names that ask 5 times a second", func(tr *trio) {
		for _, p := range tr.processes {
			go p.flood(5 * time.Second)
		}
		time.Sleep(4 * time.Second)
		tr.bursts(200)
	}},
	{"200 at once in each, idle since four requests, 70 s after all ways were cut", func(tr *trio) {
		tr.bursts(4)
		time.Sleep(time.Second)
		tr.mayWait = true
		for region := range tr.processes {
			tr.cutOff(region, true)
		}
		time.Sleep(70 * time.Second)
		tr.bursts(200)
	}},
	{"200 at once in one region, a second later in the next, then in the third", func(tr *trio) {
		for region := range 3 {
			tr.burst(region, 200)
			time.Sleep(time.Second)
		}
	}},
	{"5 a second in each, one region cut off for 200 s", func(tr *trio) {
		tr.mayWait = true
		time.AfterFunc(50*time.Second, func() { tr.cutOff(2, true) })
		time.AfterFunc(250*time.Second, func() { tr.cutOff(2, false) })
		tr.steadyInAll(200*ms, 200*ms, 200*ms)
		tr.steadyInAll(200*ms, 200*ms, 200*ms)
	}},
}

// TestBursts prints the most that a minute held in all regions, the table of docs/regions.md. It holds the page to
// within 5 of that, and the default to at most one wait, for a poll. A row that the page lacks has the limit in both
// modes, as the page says.
func TestBursts(t *testing.T) {
	page := core.Must(os.ReadFile("../../docs/regions.md"))
	table := "| traffic | default | strict | N in each region |\n|---|---|---|---|\n"
	for _, c := range traffics {
		row := "| " + c.name + " |"
		_, after, found := strings.Cut(string(page), "\n"+row)
		documented, most := [3]int64{100, 100, 300}, [3]int64{}
		_, err := fmt.Sscanf(after, " %d | %d | %d |", &documented[0], &documented[1], &documented[2])
		if found && err != nil {
			t.Errorf("docs/regions.md has no numbers in the row %q: %v", row, err)
		}
		for mode := range most {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrio(mode == 1, mode == 2)
				c.run(tr)
				settle()
				if most[mode], err = tr.checkTheorem(tr.limits[0]); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				waited := 161 * ms // a poll
				if tr.mayWait {
					waited = 376 * ms // three quarters of the timeout
				}
				if mode == 0 && tr.longest > waited {
					t.Errorf("%s: a request took %v, want at most %v", c.name, tr.longest, waited)
				}
				if failed := tr.events["failed"]; failed > 0 && mode != 1 {
					t.Errorf("%s: %d requests failed", c.name, failed)
				}
			})
			if d := most[mode] - documented[mode]; d < -5 || d > 5 || mode == 1 && most[mode] > 100 {
				t.Errorf("%s: the page has %d in column %d, and it is %d", c.name, documented[mode], mode, most[mode])
			}
		}
		table += fmt.Sprintf("%s %d | %d | %d |\n", row, most[0], most[1], most[2])
	}
	t.Log("\n" + table)
}

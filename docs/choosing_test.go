package docs_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

var update = flag.Bool("update", false, "write choosing.svg anew and print the table of choosing.md")

// The limit of choosing.md, and how long its traffic lasts.
const (
	most   = 100
	window = time.Minute
	lasts  = 10 * window
)

// algorithm makes what decides about a client: take reports whether a request at the given
// time is admitted. Times count from the beginning of a fixed window and do not decrease.
type algorithm struct {
	name string
	make func() (take func(at time.Duration) bool)
}

var compared = []algorithm{
	{"log", func() func(time.Duration) bool { return sash(core.SlidingLog) }},
	{"counter", func() func(time.Duration) bool { return sash(core.SlidingCounter) }},
	{"fixed window", fixedWindow},
	{"token bucket", tokenBucket},
}

// sash is this module, in memory.
func sash(a core.Algorithm) func(time.Duration) bool {
	began := time.Unix(1_800_000_000, 0) // a whole minute
	now := began
	l := core.Must(core.New(core.Config{
		Store:  memstore.New(memstore.WithClock(func() time.Time { return now })),
		Limits: []core.Limit{core.Per(most, window).Using(a)},
	}))
	return func(at time.Duration) bool {
		now = began.Add(at)
		return l.Allow(context.Background(), "client").Allowed
	}
}

// fixedWindow counts anew from each whole minute on.
func fixedWindow() func(time.Duration) bool {
	var current time.Duration
	used := 0
	return func(at time.Duration) bool {
		if n := at / window; n != current {
			current, used = n, 0
		}
		used++
		return used <= most
	}
}

// tokenBucket begins with a full bucket.
func tokenBucket() func(time.Duration) bool {
	var last time.Duration
	tokens := float64(most)
	return func(at time.Duration) bool {
		tokens = min(most, tokens+most*float64(at-last)/float64(window))
		last = at
		if tokens < 1 {
			return false
		}
		tokens--
		return true
	}
}

// even returns the times of n requests from begin on, in the given time.
func even(begin, length time.Duration, n int) (times []time.Duration) {
	for i := range n {
		times = append(times, begin+length*time.Duration(i)/time.Duration(n))
	}
	return times
}

// traffic is when the requests of a client come.
type traffic struct {
	name  string
	times []time.Duration
}

func kindsOfTraffic() []traffic {
	var boundary, goesOn, random []time.Duration
	for m := window; m < lasts; m += 2 * window {
		boundary = append(boundary, even(m-time.Second, 2*time.Second, 2*most)...)
		goesOn = append(goesOn, append(even(m-time.Second, time.Second, most), even(m, window, 600)...)...)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for at := time.Duration(0); at < lasts; {
		random = append(random, at)
		at += time.Duration(rng.ExpFloat64() * float64(window) / most)
	}
	return []traffic{
		{"even, 90 a minute", even(0, lasts, 900)},
		{"even, 600 a minute", even(0, lasts, 6000)},
		{"at random, 100 a minute", random},
		{"200 around every second full minute", boundary},
		{"100 before every second full minute, then 600 in the minute", goesOn},
	}
}

// admitted returns the requests that a admits.
func (a algorithm) admitted(t traffic) (times []time.Duration) {
	take := a.make()
	for _, at := range t.times {
		if take(at) {
			times = append(times, at)
		}
	}
	return times
}

// within returns how many of times, which are sorted, are in the window that ends at the given time.
func within(times []time.Duration, at time.Duration) int {
	from, _ := slices.BinarySearch(times, at-window+1)
	to, _ := slices.BinarySearch(times, at+1)
	return to - from
}

// worst returns how many of times are in the fullest window.
func worst(times []time.Duration) (n int) {
	for _, at := range times {
		n = max(n, within(times, at))
	}
	return n
}

// TestChoosing: the table of choosing.md is what comes out, and so is its picture.
func TestChoosing(t *testing.T) {
	page, err := os.ReadFile("choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, traffic := range kindsOfTraffic() {
		row := fmt.Sprintf("| %s | %d |", traffic.name, len(traffic.times))
		for _, a := range compared {
			times := a.admitted(traffic)
			row += fmt.Sprintf(" %d, %d |", len(times), worst(times))
		}
		if *update {
			fmt.Println(row)
		} else if !strings.Contains(string(page), row+"\n") {
			t.Errorf("choosing.md lacks: %s", row)
		}
	}
	picture := draw(kindsOfTraffic()[4])
	if *update {
		write(t, "choosing.svg", picture)
	}
	if drawn, err := os.ReadFile("choosing.svg"); err != nil || string(drawn) != picture {
		t.Errorf("choosing.svg is old (%v): run go test -run Choosing ./docs -update", err)
	}
}

// draw draws, for each algorithm, how many requests of the last minute were admitted at any
// time of the first four.
func draw(t traffic) string {
	const width, height, gap = 720, 90, 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<title>Requests admitted within the last minute, under a limit of 100 a minute</title>
<style>text{fill:#222}.area{fill:#3b82c4;fill-opacity:.35;stroke:#3b82c4}.limit{stroke:#c2410c;stroke-dasharray:5 4}
.minute{stroke:#999}@media(prefers-color-scheme:dark){text{fill:#ddd}.minute{stroke:#666}}</style>
`, width, len(compared)*(height+gap)+20)
	for i, a := range compared {
		times := a.admitted(t)
		top := i*(height+gap) + 30
		bottom := top + height
		fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">%s: at most %d in a minute</text>\n", top-8, a.name, worst(times))
		for m := range 5 {
			x := m * width / 4
			fmt.Fprintf(&b, "<path class=\"minute\" d=\"M%d %dV%d\"/>\n", x, top, bottom)
		}
		fmt.Fprintf(&b, "<path class=\"area\" d=\"M0 %d", bottom)
		for x := range width/2 + 1 {
			n := within(times, 4*window*time.Duration(x)/(width/2))
			fmt.Fprintf(&b, "L%d %d", 2*x, bottom-n*height/(2*most))
		}
		fmt.Fprintf(&b, "V%d\"/>\n<path class=\"limit\" d=\"M0 %dH%d\"/>\n", bottom, bottom-height/2, width)
	}
	fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">four minutes; dashed: the limit of %d</text>\n</svg>\n",
		len(compared)*(height+gap)+15, most)
	return b.String()
}

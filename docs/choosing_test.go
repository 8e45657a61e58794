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

var update = flag.Bool("update", false, "draw the pictures of choosing.md anew, and print what the page has to say")

// The limit of the table of choosing.md, and how long its traffic lasts.
const (
	most   = 100
	window = time.Minute
	lasts  = 10 * window
)

// algorithm makes what decides about a client, under a limit of most in a minute: take reports
// whether a request at the given time is admitted. Times count from the beginning of a fixed
// window and do not decrease.
type algorithm struct {
	name string
	make func(most int) (take func(at time.Duration) bool)
}

var compared = []algorithm{
	{"SlidingLog", func(most int) func(time.Duration) bool { return sash(core.SlidingLog, most) }},
	{"CoarseLog", func(most int) func(time.Duration) bool { return sash(core.CoarseLog, most) }},
	{"SlidingCounter", func(most int) func(time.Duration) bool { return sash(core.SlidingCounter, most) }},
	{"Fixed window (not in sash)", fixedWindow},
	{"Bucket", func(most int) func(time.Duration) bool { return sash(core.Bucket, most) }},
}

// sash is this module, in memory.
func sash(a core.Algorithm, most int) func(time.Duration) bool {
	began := time.Unix(1_800_000_000, 0) // a whole minute
	now := began
	l := core.Must(core.New(core.Config{
		Store:  memstore.New(memstore.WithClock(func() time.Time { return now })),
		Limits: []core.Limit{core.Per(int64(most), window).Using(a)},
	}))
	return func(at time.Duration) bool {
		now = began.Add(at)
		return l.Allow(context.Background(), "client").Allowed
	}
}

// fixedWindow counts anew from each whole minute on.
func fixedWindow(most int) func(time.Duration) bool {
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
		{"even, 100 a minute", even(0, lasts, 1000)},
		{"even, 600 a minute", even(0, lasts, 6000)},
		{"at random, 100 a minute", random},
		{"200 around every second full minute", boundary},
		{"100 before every second full minute, then 600 in the minute", goesOn},
	}
}

// decide returns the requests that a admits and those that it refuses.
func (a algorithm) decide(t traffic, most int) (admitted, refused []time.Duration) {
	take := a.make(most)
	for _, at := range t.times {
		if take(at) {
			admitted = append(admitted, at)
		} else {
			refused = append(refused, at)
		}
	}
	return admitted, refused
}

// fullest returns the first of the windows with the most of times, which are sorted: when it
// begins, and how many of times are in it.
func fullest(times []time.Duration) (begin time.Duration, n int) {
	for i, at := range times {
		end, _ := slices.BinarySearch(times, at+window)
		if end-i > n {
			begin, n = at, end-i
		}
	}
	return begin, n
}

// TestChoosing: the table of choosing.md is what comes out, of every algorithm, and so are its pictures and what
// stands for them in text. The README names each algorithm.
func TestChoosing(t *testing.T) {
	page, err := os.ReadFile("choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, traffic := range kindsOfTraffic() {
		row := fmt.Sprintf("| %s | %d |", traffic.name, len(traffic.times))
		for _, a := range compared {
			admitted, _ := a.decide(traffic, most)
			_, n := fullest(admitted)
			row += fmt.Sprintf(" %d, %d |", len(admitted), n)
		}
		says(t, string(page), row)
	}
	if len(compared) != len(core.Algorithms())+1 {
		t.Errorf("%d algorithms are compared, want the %d of core and fixed windows",
			len(compared), len(core.Algorithms()))
	}
	for i, name := range []string{"log", "coarse", "counter", "fixed", "bucket"} {
		if name != "fixed" && !strings.Contains(readme(t), compared[i].name) {
			t.Errorf("the README does not name %s", compared[i].name)
		}
		file := "images/choosing-" + name + ".svg"
		drawing := drawingOf(compared[i])
		says(t, string(page), "!["+drawing.Alt+"]("+file+")")
		svg := drawing.svg(t)
		if *update {
			write(t, file, svg)
		}
		if drawn, err := os.ReadFile(file); err != nil || string(drawn) != svg {
			t.Errorf("%s is old (%v): run go test -run Choosing ./docs -update", file, err)
		}
	}
}

// says checks that the page has the line, or prints the line under -update.
func says(t *testing.T, page, line string) {
	t.Helper()
	if *update {
		fmt.Println(line)
	} else if !strings.Contains(page, line+"\n") {
		t.Errorf("choosing.md lacks: %s", line)
	}
}

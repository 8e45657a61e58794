package script

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// rendered are the hashes of the scripts that decide by the first so many algorithms, and of the one that returns.
var rendered = map[int]string{
	3: "577ee4b00a845b9034385cef31074e630a42f1a4aa4b6ba9850ddb5969adbd92",
	4: "4513b3d69177fe0e00feb22289ce1fd1e537b7646316d701cd9ddab86dd10ba3",
	0: "9adaad1af3972e9fb857275b392b52092600662f97ad22951d84582784f3832d",
}

// TestRendered: the scripts are, byte for byte, those that servers know. A change of the templates that changes no
// script keeps the hashes, and so does another algorithm that of those before it.
func TestRendered(t *testing.T) {
	for n, want := range rendered {
		sum := sha256.New()
		if n == 0 {
			io.WriteString(sum, returnSource())
		} else {
			renderAll(sum, core.Algorithms()[:n])
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want {
			t.Errorf("the scripts of %d algorithms have the hash %s, want %s", n, got, want)
		}
	}
}

// renderAll writes the scripts of all rules of 3 limits at most, and of some of more, by these algorithms.
func renderAll(sum io.Writer, algorithms []core.Algorithm) {
	write := func(limits []core.Limit) {
		for _, lease := range []bool{false, true} {
			io.WriteString(sum, decideSource(lease, limits)+"\x00")
		}
	}
	var limits []core.Limit
	var choose func(most int)
	choose = func(most int) {
		if len(limits) > 0 {
			write(limits)
		}
		if len(limits) == most {
			return
		}
		for _, a := range algorithms {
			n := len(limits)
			for _, w := range []time.Duration{[]time.Duration{time.Minute, time.Second, time.Hour}[n], 90 * time.Second} {
				limits = append(limits, core.Per(10, w).Using(a))
				choose(most)
				limits = limits[:n]
			}
		}
	}
	choose(3)
	for n := range 12 { // of 5 and 16 limits, in which an algorithm begins, and comes again by turns
		var many []core.Limit
		for i := range 5 + n%2*(MaxLimits-5) {
			a := algorithms[(n+i/(1+n/4))%len(algorithms)]
			many = append(many, core.PerMinute(10).Using(a))
		}
		write(many)
	}
}

// TestScriptsFew: however clients choose the windows of a rule, they lead to few scripts.
func TestScriptsFew(t *testing.T) {
	windows := []time.Duration{
		time.Second, time.Minute, time.Hour, 24 * time.Hour, time.Millisecond, 90 * time.Second, core.MaxWindow,
	}
	for n, want := range map[int]int{1: 5, 2: 17, 3: 65, 4: 257, 5: 1} {
		limits, sources := make([]core.Limit, n), map[string]string{} // the script of each shape
		var choose func(i int)
		choose = func(i int) {
			if i < n {
				for _, w := range windows {
					limits[i] = core.Per(int64(len(sources)+1), w).Using(core.Algorithms()[i%len(core.Algorithms())])
					choose(i + 1)
				}
				return
			}
			shape := Shape(false, limits)
			if _, known := sources[shape]; !known {
				sources[shape] = decideSource(false, limits)
			}
		}
		choose(0)
		different := map[string]bool{}
		for _, source := range sources {
			different[source] = true
		}
		if len(sources) != want || len(different) != want {
			t.Errorf("%d limits lead to %d shapes and %d scripts, want %d", n, len(sources), len(different), want)
		}
	}
}

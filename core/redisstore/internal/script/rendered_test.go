package script

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// rendered are the hashes of the scripts that decide by the first so many algorithms, and of the one that returns.
var rendered = map[int]string{
	3: "c5c1f60a75a345677eb7af790e3f7888516216441af6dae3f331c97e9620a37f",
	4: "f4d70310267b864c7fada241aa883fd1b7b021e3762cd257aaa01f6ead030e39",
	0: "9adaad1af3972e9fb857275b392b52092600662f97ad22951d84582784f3832d",
}

// TestRendered: the scripts are, byte for byte, those that servers know. A change of the templates that changes no
// script keeps the hashes, and so does another algorithm that of those before it.
func TestRendered(t *testing.T) {
	for n, want := range rendered {
		sum := sha256.New()
		if n == 0 {
			io.WriteString(sum, Return().Source)
		} else {
			renderAll(sum, core.Algorithms()[:n])
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want {
			t.Errorf("the scripts of %d algorithms have the hash %s, want %s", n, got, want)
		}
	}
}

// renderAll writes the scripts of many rules by these algorithms.
func renderAll(sum io.Writer, algorithms []core.Algorithm) {
	rng, windows := rand.New(rand.NewPCG(1, 2)), []time.Duration{time.Minute, time.Second, time.Hour, 90 * time.Second}
	for n := range 1000 {
		limits := make([]core.Limit, 1+rng.IntN([]int{3, 3, 3, MaxLimits}[n%4]))
		for i := range limits {
			w := windows[rng.IntN(3+n%2)] // the last does not stand in the script
			limits[i] = core.Per(10, w).Using(algorithms[rng.IntN(len(algorithms))])
		}
		io.WriteString(sum, Decide(rng.IntN(2) == 0, limits).Source+"\x00")
	}
}

// TestScriptsFew: however clients choose the windows of a rule, they lead to few scripts.
func TestScriptsFew(t *testing.T) {
	windows := []time.Duration{
		time.Second, time.Minute, time.Hour, 24 * time.Hour, time.Millisecond, 90 * time.Second, core.MaxWindow,
	}
	for n, want := range map[int]int{1: 5, 2: 17, 3: 65, 4: 257, 5: 1} {
		limits, sources := make([]core.Limit, n), map[string]string{} // the script of each shape
		for choice := range int(math.Pow(float64(len(windows)), float64(n))) {
			for i := range limits {
				w := windows[choice%len(windows)]
				limits[i] = core.Per(int64(len(sources)+1), w).Using(core.Algorithms()[i%len(core.Algorithms())])
				choice /= len(windows)
			}
			shape := Shape(false, limits)
			if _, known := sources[shape]; !known {
				sources[shape] = Decide(false, limits).Source
			}
		}
		different := map[string]bool{}
		for _, source := range sources {
			different[source] = true
		}
		if len(sources) != want || len(different) != want {
			t.Errorf("%d limits lead to %d shapes and %d scripts, want %d", n, len(sources), len(different), want)
		}
	}
}

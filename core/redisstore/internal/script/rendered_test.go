package script

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// rendered is the hash of all that TestRendered renders. It changes with the scripts alone.
const rendered = "df7b5589b77d7e9d7457b3562c81756659b0a34b3cc49208def5b4d8f78b0602"

// TestRendered: the scripts are, byte for byte, those that servers know. A change of the templates that changes no
// script keeps the hash.
func TestRendered(t *testing.T) {
	sum := sha256.New()
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
		for _, a := range core.Algorithms() {
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
			a := core.Algorithm((n + i/(1+n/4)) % len(core.Algorithms()))
			many = append(many, core.PerMinute(10).Using(a))
		}
		write(many)
	}
	io.WriteString(sum, returnSource())
	if got := hex.EncodeToString(sum.Sum(nil)); got != rendered {
		t.Errorf("the scripts have the hash %s, want %s", got, rendered)
	}
}

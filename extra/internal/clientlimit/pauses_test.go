package clientlimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestPauses: a key has the pause that ends last, and where there are more keys than are kept, the pause that ends
// first is dropped, as it would be by a look at all of them.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pauses
		rng := rand.New(rand.NewPCG(1, 2))
		ends := map[string]time.Time{} // of the pauses that are kept
		for i := range 6000 {
			time.Sleep(time.Millisecond)
			key := fmt.Sprint(rng.IntN(2 * maxPauses))
			// No two end at once, so that it is known which one is dropped.
			wait := time.Duration(rng.IntN(6000))*time.Millisecond + time.Duration(i+1)
			end := time.Now().Add(wait)
			if _, ok := ends[key]; !ok && len(ends) == maxPauses {
				first := ""
				for other, at := range ends {
					if first == "" || at.Before(ends[first]) {
						first = other
					}
				}
				delete(ends, first)
			}
			if end.After(ends[key]) {
				ends[key] = end
			}
			p.start(key, wait)
			p.start("another", 0) // is none, and drops none

			key = fmt.Sprint(rng.IntN(2 * maxPauses))
			want := max(0, time.Until(ends[key]))
			if got := p.remaining(key); got != want {
				t.Fatalf("step %d: got %v left of the pause of %s, want %v", i, got, key, want)
			}
			if want == 0 {
				delete(ends, key)
			}
		}
		if len(p.byKey) != len(ends) || len(p.order) != len(ends) || len(ends) < maxPauses/2 {
			t.Errorf("got %d and %d pauses, want %d", len(p.byKey), len(p.order), len(ends))
		}
	})
}

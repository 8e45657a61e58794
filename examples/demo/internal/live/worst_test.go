package live

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestWorst compares worst with a count of every window, for requests that come a little out of order.
func TestWorst(t *testing.T) {
	const window = 10 * time.Second
	start := time.Unix(1_700_000_000, 0)
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &worst{window: window}
		var all []time.Time
		now := start
		for range 250 {
			now = now.Add(time.Duration(random.IntN(3)) * time.Duration(random.IntN(4)) * 500 * time.Millisecond)
			at := now.Add(-time.Duration(random.IntN(3)) * time.Second)
			all = append(all, at)
			w.add(stamp{at, at})
			most := 0
			for _, from := range all {
				n := 0
				for _, other := range all {
					if d := other.Sub(from); d >= 0 && d < window {
						n++
					}
				}
				most = max(most, n)
			}
			if w.most != most || w.last.Sub(w.first) >= window {
				t.Fatalf("seed %d: the worst window holds %d from %v to %v, want %d",
					seed, w.most, w.first, w.last, most)
			}
			if len(w.stamps) > 60 {
				t.Fatalf("seed %d: %d stamps are kept", seed, len(w.stamps))
			}
		}
	}
}

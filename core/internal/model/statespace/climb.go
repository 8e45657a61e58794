package statespace

import (
	"math/rand/v2"
	"slices"
)

// Arrival is N requests of cost 1 at one time.
type Arrival struct {
	At int64
	N  int
}

// Climb searches for the arrivals of the highest score by hill climbing from random ones: it changes a few at a time,
// and keeps changes that lower no score. Times are below span, and at most maxN requests arrive at once.
func Climb(seed uint64, tries int, span int64, maxN int, score func([]Arrival) int64) (best []Arrival, high int64) {
	rng := rand.New(rand.NewPCG(seed, 29))
	arrival := func() Arrival { return Arrival{rng.Int64N(span), 1 + rng.IntN(maxN)} }
	best = make([]Arrival, 12)
	for i := range best {
		best[i] = arrival()
	}
	for range tries {
		next := slices.Clone(best)
		for range 1 + rng.IntN(3) {
			one := &next[rng.IntN(len(next))]
			switch near := 1 + span/(1<<rng.IntN(12)); rng.IntN(4) {
			case 0:
				*one = arrival()
			case 1:
				one.N = 1 + rng.IntN(maxN)
			default:
				one.At = min(max(0, one.At+rng.Int64N(2*near)-near), span-1)
			}
		}
		slices.SortFunc(next, func(a, b Arrival) int { return int(a.At - b.At) })
		if got := score(next); got >= high {
			best, high = next, got
		}
	}
	return best, high
}

package statespace

import (
	"math/rand/v2"
	"slices"
)

// Arrival is some requests of cost 1 at a time.
type Arrival struct {
	At int64
	N  int
}

// Climb looks for the arrivals of the highest score, from nothing but a seed: it changes some at a time, and keeps what
// is no worse. Times are below span, and at most most requests come at once.
func Climb(seed uint64, tries int, span int64, most int, score func([]Arrival) int64) (best []Arrival, high int64) {
	rng := rand.New(rand.NewPCG(seed, 29))
	arrival := func() Arrival { return Arrival{rng.Int64N(span), 1 + rng.IntN(most)} }
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
				one.N = 1 + rng.IntN(most)
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

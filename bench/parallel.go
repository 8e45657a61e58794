package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// callers are some goroutines that ask about so many keys, and none is refused.
type callers struct {
	goroutines, keys int
	load             load
}

func (c callers) open(d decider) func(Env) (Work, error) {
	return func(Env) (Work, error) {
		allow, err := d.make(c.load)
		if err != nil {
			return nil, err
		}
		keys := make([]string, c.keys)
		for i := range keys {
			keys[i] = address(i)
		}
		ask := func(first, n int) error {
			for i := range n {
				if ok, err := allow(keys[(first+i)%len(keys)]); err != nil || !ok {
					return fmt.Errorf("%w: %v", errRefused, err)
				}
			}
			return nil
		}
		err = ask(0, 2*c.keys)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		next := 0
		return func(n int) error {
			failed := make([]error, c.goroutines)
			var group sync.WaitGroup
			for g := range failed {
				first := next + g*c.keys/c.goroutines
				group.Go(func() { failed[g] = ask(first, n/c.goroutines+1) })
			}
			group.Wait()
			next += n / c.goroutines
			return errors.Join(failed...)
		}, err
	}
}

// parallelRaces have a log that holds some entries of each key.
func parallelRaces() []Race {
	var races []Race
	for _, keys := range []int{1000, 1_000_000} {
		log := core.Per(core.MaxLogRequests, time.Duration(keys)*core.MinWindow/100)
		for _, goroutines := range []int{1, 2} {
			c := callers{goroutines, keys, load{requests: unlimited, log: log, room: 512 << 20}}
			r := Race{Name: fmt.Sprintf("decisions in parallel, goroutines: %d, keys: %d", goroutines, keys)}
			for _, d := range keyedDeciders() {
				r.add(d.name, d.sash, Goal{}, c.open(d))
			}
			races = append(races, r)
		}
	}
	return races
}

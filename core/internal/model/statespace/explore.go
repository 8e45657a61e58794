// Package statespace goes through every history of a small world, for tests: low limits, short windows, a few clients.
// The answers are compared with Rule, the definition of the algorithms in a few lines.
package statespace

import (
	"fmt"
	"strings"
)

// Step is one thing that may happen in a state, and the state after it.
type Step[S any] struct {
	Name string
	To   S
}

// Tally counts the states and steps of a world that were seen.
type Tally struct{ States, Steps int }

// Add adds what was seen of another world.
func (t *Tally) Add(u Tally) { t.States, t.Steps = t.States+u.States, t.Steps+u.Steps }

func (t Tally) String() string { return fmt.Sprintf("%d states, %d steps", t.States, t.Steps) }

// state is one that was reached, and how.
type state[S any] struct {
	is   S
	from int
	by   string
}

// Explore goes breadth-first through all states that can be reached from one. States of the same key must behave alike.
// next returns the steps from some states, by state, or the number of the state in which an answer was wrong, and an
// error. That is returned with the shortest history that leads there.
func Explore[S any](start S, key func(S) string, next func([]S) ([][]Step[S], int, error)) (t Tally, err error) {
	const together = 1000 // states, for a world that is far away
	all, seen := []state[S]{{is: start}}, map[string]bool{key(start): true}
	for done := 0; done < len(all); {
		var some []S
		for i := done; i < len(all) && len(some) < together; i++ {
			some = append(some, all[i].is)
		}
		steps, wrong, err := next(some)
		if err != nil {
			return Tally{len(all), t.Steps}, fmt.Errorf("after %s: %w", history(all, done+wrong), err)
		}
		for i, of := range steps {
			t.Steps += len(of)
			for _, step := range of {
				if k := key(step.To); !seen[k] {
					seen[k] = true
					all = append(all, state[S]{step.To, done + i, step.Name})
				}
			}
		}
		done += len(some)
	}
	t.States = len(all)
	return t, nil
}

// history returns what has led to a state.
func history[S any](all []state[S], i int) string {
	var names []string
	for ; i > 0; i = all[i].from {
		names = append(names, all[i].by)
	}
	var text strings.Builder
	for i := len(names) - 1; i >= 0; i-- {
		text.WriteString(names[i] + ", ")
	}
	return text.String() + "as the next step"
}

// Package statespace explores every history of a small system, for tests: low limits, short windows, a few clients. Its
// Rule defines the algorithms in a few lines; the answers of the system are compared with it.
package statespace

import (
	"fmt"
	"strings"
)

// Step is a transition: an event and the state after it.
type Step[S any] struct {
	Name string
	To   S
}

// Stats counts the explored states and steps.
type Stats struct{ States, Steps int }

// Add adds the numbers of another system.
func (t *Stats) Add(u Stats) { t.States, t.Steps = t.States+u.States, t.Steps+u.Steps }

func (t Stats) String() string { return fmt.Sprintf("%d states, %d steps", t.States, t.Steps) }

// state is an explored state, with the index of the state before and the step from there.
type state[S any] struct {
	value S
	prev  int
	step  string
}

// Explore visits all states that can be reached from start, breadth-first. States with the same key must behave alike.
// next returns the steps from a batch of states, by state. If an answer is wrong, it returns the index of the state and
// an error, which Explore returns with the shortest history to that state.
func Explore[S any](start S, key func(S) string, next func([]S) ([][]Step[S], int, error)) (t Stats, err error) {
	const maxBatch = 1000 // states in a call of next
	all, seen := []state[S]{{value: start}}, map[string]bool{key(start): true}
	for done := 0; done < len(all); {
		var batch []S
		for i := done; i < len(all) && len(batch) < maxBatch; i++ {
			batch = append(batch, all[i].value)
		}
		steps, wrong, err := next(batch)
		if err != nil {
			return Stats{len(all), t.Steps}, fmt.Errorf("after %s: %w", history(all, done+wrong), err)
		}
		for i, group := range steps {
			t.Steps += len(group)
			for _, step := range group {
				if k := key(step.To); !seen[k] {
					seen[k] = true
					all = append(all, state[S]{step.To, done + i, step.Name})
				}
			}
		}
		done += len(batch)
	}
	t.States = len(all)
	return t, nil
}

// history returns the steps to state i.
func history[S any](all []state[S], i int) string {
	var names []string
	for ; i > 0; i = all[i].prev {
		names = append(names, all[i].step)
	}
	var text strings.Builder
	for i := len(names) - 1; i >= 0; i-- {
		text.WriteString(names[i] + ", ")
	}
	return text.String() + "as the next step"
}

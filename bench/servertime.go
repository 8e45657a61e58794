package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

// newActor makes an actor on the server of a lab.
type newActor func(*lab) (*actor, error)

// cast makes the actors of a race of scripts. The first actor is the unit.
type cast struct {
	name   string
	actors []newActor
}

// share returns the goal of a script: its time in units.
func share(ratio float64) Goal { return Goal{Ratio: new(ratio)} }

// three returns three limits with the numbers of l.
func three(l core.Limit) []core.Limit { return []core.Limit{l, l.Named("b"), l.Named("c")} }

// only returns l as the only limit.
func only(l core.Limit) []core.Limit { return []core.Limit{l} }

// clientsFor returns the number of clients with logs of a limit. It is 1,000, and
// less for large logs, so that the server's memory holds them.
func clientsFor(requests int64) int { return int(min(1000, 10_000_000/requests)) }

const (
	together        = 16  // decisions in a script that sash sends under load
	clientsTogether = 992 // a multiple of together
)

// casts returns the casts of all races of scripts.
func casts() []cast {
	fresh := []newActor{(*lab).redisRate, (*lab).one}
	for _, t := range freshTraffic() {
		fresh = append(fresh, func(l *lab) (*actor, error) { return l.fresh(t) })
	}
	fresh = append(fresh,
		func(l *lab) (*actor, error) { return l.sortedSet(1000, 300, unlimited) },
		func(l *lab) (*actor, error) { return l.reference(1000, 10) },
	)
	refused := []newActor{(*lab).redisRate, (*lab).redisRateRefused}
	for _, t := range refusedTraffic() {
		refused = append(refused, func(l *lab) (*actor, error) { return l.refused(t) })
	}
	return []cast{{"nothing expires", fresh}, {"refused", refused}}
}

// freshTraffic returns the traffic of which nothing expires.
func freshTraffic() []traffic {
	ten, thousand, large := core.PerHour(10), core.PerHour(1000), core.PerHour(100_000)
	counter := core.PerHour(unlimited).Using(core.SlidingCounter)
	return []traffic{ // name, clients, prefilled, together, goal, limits
		{"log, limit 10", clientsFor(10), 1, 1, share(0.65), only(ten)},
		{"log, limit 1000", clientsFor(1000), 300, 1, share(0.65), only(thousand)},
		{"log, limit 100000", clientsFor(100_000), 50_000, 1, share(0.65), only(large)},
		{"3 logs, limit 1000", clientsFor(1000), 300, 1, share(1.3), three(thousand)},
		{"counter", 1000, 1, 1, share(0.5), only(counter)},
		{"3 counters", 1000, 1, 1, share(1), three(counter)},
		{"log, limit 1000", clientsTogether, 300, together, Goal{}, only(thousand)},
		{"3 logs, limit 1000", clientsTogether, 300, together, Goal{}, three(thousand)},
		{"counter", clientsTogether, 1, together, Goal{}, only(counter)},
		{"3 counters", clientsTogether, 1, together, Goal{}, three(counter)},
	}
}

// refusedTraffic returns the traffic that is refused.
func refusedTraffic() []traffic {
	ten, thousand, large := core.PerHour(10), core.PerHour(1000), core.PerHour(100_000)
	counter := ten.Using(core.SlidingCounter)
	return []traffic{ // name, clients, prefilled (by refused), together, goal, limits
		{"log, limit 10", clientsFor(10), 0, 1, share(0.65), only(ten)},
		{"log, limit 1000", clientsFor(1000), 0, 1, share(0.65), only(thousand)},
		{"log, limit 100000", clientsFor(100_000), 0, 1, share(0.65), only(large)},
		{"counter", clientsFor(10), 0, 1, share(0.5), only(counter)},
		{"log, limit 1000", clientsTogether, 0, together, Goal{}, only(thousand)},
		{"counter", clientsTogether, 0, together, Goal{}, only(counter)},
	}
}

// run races the actors of a cast on a server of their own.
func (c cast) run(rounds int) (rows []Row, err error) {
	err = withLab(func(l *lab) error {
		actors := make([]*actor, len(c.actors))
		for i, make := range c.actors {
			if actors[i], err = make(l); err != nil {
				return err
			}
		}
		micros, err := l.race(actors, rounds)
		if err != nil {
			return err
		}
		for i, a := range actors {
			rows = append(rows, Row{
				What: "script, " + c.name, Name: a.name, Unit: "us",
				Values: micros[i], Ratios: ratios(micros[i], micros[0]), LowerIsBetter: true,
				Goal: a.goal,
			})
			if a.checkCounts == nil {
				continue
			}
			if err := a.checkCounts(); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
		}
		return nil
	})
	return rows, err
}

// runScripts races the casts and measures the logs in steady state.
func runScripts(c Config) ([]Row, error) {
	var rows []Row
	for _, cast := range casts() {
		c.progress("scripts, %s", cast.name)
		more, err := again(time.Now, func() ([]Row, error) { return cast.run(20 * c.Rounds) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cast.name, err)
		}
		rows = append(rows, more...)
	}
	for _, s := range steadies() {
		c.progress("scripts, one expires per request: %s", s.name)
		more, err := s.run(20 * c.Rounds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, more...)
	}
	return append(rows, flatness(rows)...), nil
}

// flatness compares, in each situation, the cheapest limit of one log with the
// dearest, in units of redis_rate's script.
func flatness(rows []Row) []Row {
	logs := []string{"log, limit 10", "log, limit 1000", "log, limit 100000"}
	var flat []Row
	for _, what := range []string{"script, nothing expires", "script, refused", "script, one expires per request"} {
		var medians []float64
		for _, r := range rows {
			if r.What == what && slices.Contains(logs, r.Name) {
				medians = append(medians, median(r.Ratios))
			}
		}
		if len(medians) > 1 {
			flat = append(flat, Row{
				What:   "script, log of limit 10 to 100000",
				Name:   what[len("script, "):],
				Unit:   "times, dearest of cheapest",
				Values: []float64{slices.Max(medians) / slices.Min(medians)},
				Goal:   Goal{Value: new(1.3)},
			})
		}
	}
	return flat
}

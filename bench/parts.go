package bench

import (
	"fmt"
	"time"
)

// Part is a part of the table that can be measured by itself.
type Part struct {
	Name, About string
	races       func() []race
	more        func(Config) ([]Row, error) // rows that are no race; may be nil
	needsRedis  bool
}

// Parts returns all parts, in the order of the table.
func Parts() []Part {
	return []Part{
		{"web", "middleware of net/http and echo in memory", webRaces, nil, false},
		{"decision", "the decision alone, in memory, of one goroutine and of two", decisionRaces, nil, false},
		{"redis", "decisions through a client of Redis, also its server's time, and what a client takes", redisRaces,
			runTakes, true},
	}
}

// Check returns the error with which the part would end, as far as that is known beforehand, so that a user does not
// wait minutes for it.
func (p Part) Check() error {
	if p.needsRedis {
		return checkRedis()
	}
	return nil
}

// Run measures the part and returns its rows of the table.
func (p Part) Run(c Config) (rows []Row, err error) {
	for _, r := range p.races() {
		c.progress("%s", r.name)
		more, err := again(time.Now, func() (rows []Row, err error) {
			err = withServers(r.servers, func(env Env) error {
				rows, err = r.run(c, env)
				return err
			})
			return rows, err
		})
		if err != nil {
			return rows, fmt.Errorf("%s: %w", r.name, err)
		}
		rows = append(rows, more...)
	}
	if p.more != nil {
		more, err := p.more(c)
		return append(rows, more...), err
	}
	return rows, nil
}

// again calls measure, and once more if measure failed while the hour turned. The windows of sash's counter begin with
// the hour, as they should. A client that was refused before the hour is admitted after it, and the check that all
// clients are refused fails.
func again[T any](now func() time.Time, measure func() (T, error)) (T, error) {
	hour := now().Truncate(time.Hour)
	result, err := measure()
	if err == nil || now().Truncate(time.Hour).Equal(hour) {
		return result, err
	}
	return measure()
}

package bench

import (
	"fmt"
	"time"
)

// Config sets how long to measure.
type Config struct {
	Rounds int           // rounds of a race; a race of scripts has 20 times as many
	Slice  time.Duration // how long a contestant works in each round; twice as long in the part throughput
	Keys   int           // keys of the memory measurement

	Progress func(string) // is called with the name of the next measurement; may be nil
}

// progress reports the name of the next measurement.
func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Part is a part of the table that can be measured by itself.
type Part struct {
	Name, About string
	check       func(Config) error // may be nil
	run         func(Config) ([]Row, error)
}

// Check returns the error with which the part would end, as far as that is known
// beforehand, so that a user does not wait minutes for it.
func (p Part) Check(c Config) error {
	if p.check == nil {
		return nil
	}
	if err := p.check(c); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// Run measures the part and returns its rows of the table.
func (p Part) Run(c Config) ([]Row, error) {
	rows, err := p.run(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return rows, nil
}

// Parts returns all parts, in the order of the table.
func Parts() []Part {
	inMemory := func(races func() []Race) func(Config) ([]Row, error) {
		return func(c Config) ([]Row, error) { return runRaces(c, races(), withoutServers) }
	}
	return []Part{
		{"web", "net/http middleware in memory", nil, inMemory(webRaces)},
		{"echo", "echo middleware in memory", nil, inMemory(echoRaces)},
		{"echo5", "echo v5 middleware in memory", nil, inMemory(echo5Races)},
		{"decision", "the decision alone, in memory", nil, inMemory(decisionRaces)},
		{"parallel", "decisions of one and of two goroutines, in memory", nil, inMemory(parallelRaces)},
		{"observers", "net/http middleware in memory, with metrics", nil, inMemory(observedRaces)},
		{"memory", "bytes per live key in memory", checkKeys, runMemory},
		{"scripts", "server time per decision in Redis", checkScripts, runScripts},
		{"algorithms", "sash's algorithms beside each other, in memory and in Redis", checkRedis, runAlgorithms},
		{"bytes", "bytes per log entry in Redis", checkRedis, runBytes},
		{"expiry", "how long a mass expiry blocks Redis", checkRedis, runExpiry},
		{"throughput", "decisions through a stock client of Redis", checkRedis, runThroughput},
	}
}

// withoutServers calls f for a race that needs no server.
func withoutServers(_ Race, f func(Env) error) error { return f(Env{}) }

// runRaces runs one race after the other, each with the servers of withServers, and
// returns the rows of all.
func runRaces(c Config, races []Race, withServers func(Race, func(Env) error) error) ([]Row, error) {
	var rows []Row
	for _, r := range races {
		c.progress("%s", r.Name)
		more, err := again(time.Now, func() (rows []Row, err error) {
			err = withServers(r, func(env Env) error {
				rows, err = r.run(c, env)
				return err
			})
			return rows, err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// again calls measure, and once more if measure failed while the hour turned. The
// windows of sash's counter begin with the hour, as they should. A client that was
// refused before the hour is admitted after it, and the check that all clients are
// refused fails.
func again[T any](now func() time.Time, measure func() (T, error)) (T, error) {
	hour := now().Truncate(time.Hour)
	result, err := measure()
	if err == nil || now().Truncate(time.Hour).Equal(hour) {
		return result, err
	}
	return measure()
}

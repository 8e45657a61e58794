package bench

import (
	"errors"
	"fmt"
	"time"
)

// Env says where the servers are that a contestant may need.
type Env struct {
	Redis   string   // the address of a single server
	Cluster []string // of the nodes of a cluster, for a race on one
}

// Work does a contestant's thing n times. An error says that it was not done:
// a request was refused that should have been admitted, for example.
type Work func(n int) error

// Contestant is one of those that are compared.
type Contestant struct {
	Name string
	Open func(Env) (Work, error) // ready to be timed: warm, keys in place
	Goal Goal
}

// Race compares contestants that do the same work. Each has a process of its
// own, so that no garbage collector works for another, and they take turns:
// what disturbs the machine disturbs all.
type Race struct {
	Name        string
	Contestants []Contestant

	// Baseline names the contestants of which the fastest, by its median, is
	// what the others are compared with.
	Baseline []string
}

// sample is one slice of a contestant's work, per operation.
type sample struct{ NS, Bytes, Allocs float64 }

func (r Race) run(c Config, env Env) ([]Row, error) {
	workers := make([]*worker, len(r.Contestants))
	defer func() {
		for _, w := range workers {
			w.stop()
		}
	}()
	for i, contestant := range r.Contestants {
		var err error
		if workers[i], err = startWorker(job{Race: r.Name, Contestant: contestant.Name, Env: env}); err != nil {
			return nil, err
		}
		if _, err := workers[i].ask(order{For: c.Slice / 4}); err != nil { // how fast it is
			return nil, err
		}
	}
	all := make([][]sample, len(workers))
	for range c.Rounds {
		for i, w := range workers {
			a, err := w.ask(order{For: c.Slice})
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], a.Sample)
		}
	}

	times := map[string][]float64{}
	for i, contestant := range r.Contestants {
		times[contestant.Name] = column(all[i], func(s sample) float64 { return s.NS })
	}
	baseline := ""
	for _, name := range r.Baseline {
		if baseline == "" || median(times[name]) < median(times[baseline]) {
			baseline = name
		}
	}
	var rows []Row
	for i, contestant := range r.Contestants {
		row := Row{
			What: r.Name, Name: contestant.Name, Unit: "ns", Values: times[contestant.Name], Goal: contestant.Goal,
			Bytes:  new(median(column(all[i], func(s sample) float64 { return s.Bytes }))),
			Allocs: new(median(column(all[i], func(s sample) float64 { return s.Allocs }))),
		}
		if contestant.Name == baseline {
			row.Name += " (baseline)"
		}
		if baseline != "" {
			row.Ratios = ratios(times[baseline], times[contestant.Name])
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// find returns the contestant of a job.
func find(j job) (Contestant, error) {
	for _, r := range races() {
		for _, c := range r.Contestants {
			if r.Name == j.Race && c.Name == j.Contestant {
				return c, nil
			}
		}
	}
	return Contestant{}, fmt.Errorf("no contestant %q in a race %q", j.Contestant, j.Race)
}

// races returns all races that workers run.
func races() []Race {
	var all []Race
	for _, rs := range [][]Race{webRaces(), echoRaces(), decisionRaces(), {memoryRace()}, throughputRaces()} {
		all = append(all, rs...)
	}
	return all
}

// Config says how long to measure.
type Config struct {
	Rounds int           // of the races; scripts have 20 times as many
	Slice  time.Duration // that a contestant works for in each round of a race
	Keys   int           // of the memory measurement

	Progress func(string) // what is measured now; may be nil
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Part is what can be asked for by itself.
type Part struct {
	Name, About string
	check       func(Config) error // may be nil
	run         func(Config) ([]Row, error)
}

// Check says what would end the part with an error, so that nobody waits
// minutes for that.
func (p Part) Check(c Config) error {
	if p.check == nil {
		return nil
	}
	if err := p.check(c); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// Run measures the part.
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
		return func(c Config) ([]Row, error) { return runRaces(c, Env{}, races()) }
	}
	return []Part{
		{"web", "net/http middleware in memory", nil, inMemory(webRaces)},
		{"echo", "echo middleware in memory", nil, inMemory(echoRaces)},
		{"decision", "the decision alone, in memory", nil, inMemory(decisionRaces)},
		{"memory", "bytes per live key in memory", checkKeys, runMemory},
		{"scripts", "server time per decision in Redis", checkScripts, runScripts},
		{"bytes", "bytes per log entry in Redis", checkRedis, runBytes},
		{"expiry", "how long a mass expiry blocks Redis", checkRedis, runExpiry},
		{"throughput", "decisions through a stock client of Redis", checkRedis, runThroughput},
	}
}

func runRaces(c Config, env Env, races []Race) ([]Row, error) {
	var rows []Row
	for _, r := range races {
		c.progress("%s", r.Name)
		more, err := again(time.Now, func() ([]Row, error) { return r.run(c, env) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// again measures once more what failed while the hour turned. The windows of
// sash's counter begin with the hour, as they should: clients that were refused
// are let in, and the check that all are refused ends the run.
func again(now func() time.Time, measure func() ([]Row, error)) ([]Row, error) {
	hour := now().Truncate(time.Hour)
	rows, err := measure()
	if err == nil || now().Truncate(time.Hour).Equal(hour) {
		return rows, err
	}
	return measure()
}

var errRefused = errors.New("a request was refused that should have been admitted")

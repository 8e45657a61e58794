package bench

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Config sets how long to measure.
type Config struct {
	Rounds   int           // of a race
	Slice    time.Duration // how long a contestant works in each round
	Progress func(string)  // is called with the name of the next measurement; may be nil
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Env holds the addresses of the servers that a contestant may need: of one, or of the masters of a cluster.
type Env struct{ Redis []string }

// work is what a contestant does.
type work struct {
	// do does the contestant's operation n times. An error means that an operation went wrong: for example, a
	// request was refused that should have been admitted.
	do func(n int) error

	// facts tells what else was measured since its last call. It may be nil.
	facts func() (facts, error)
}

// facts are in microseconds; 0 was not measured.
type facts struct {
	P99    float64 // the time that one of 100 operations exceeds
	Server float64 // for an operation, by the servers' account
}

// contestant is one participant of a race.
type contestant struct {
	name string
	open func(Env) (work, error) // returns work that is ready to be timed: warm, keys in place
	goal Goal
}

// race compares contestants that do the same work. Each contestant has a process of its own, so that the garbage of one
// costs the others no time. The contestants take turns, so that a disturbance of the machine disturbs all.
type race struct {
	name        string
	contestants []contestant

	// baseline names candidates. The one with the lowest median is that with which all contestants are compared.
	baseline []string

	servers func(testing.TB) Env // starts the servers of the race; nil if it needs none
}

// sample is the cost of one turn of a contestant, per operation.
type sample struct {
	NS, Bytes, Allocs float64
	Facts             facts
}

// run runs the race in workers with the servers of env, and returns its rows.
func (r race) run(c Config, env Env) ([]Row, error) {
	workers := make([]*worker, len(r.contestants))
	defer func() {
		for _, w := range workers {
			w.stop()
		}
	}()
	samples := make([][]sample, len(workers))
	turn := func(i int, slice time.Duration) (s sample, err error) {
		err = workers[i].ask(order{slice}, &s)
		return s, err
	}
	for i, of := range r.contestants {
		var err error
		if workers[i], err = startWorker(job{Race: r.name, Contestant: of.name, Env: env}); err != nil {
			return nil, err
		}
		// The first turn shows the worker how fast its contestant is.
		if _, err := turn(i, c.Slice/4); err != nil {
			return nil, err
		}
	}
	for range c.Rounds {
		for i := range workers {
			s, err := turn(i, c.Slice)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
		}
	}
	return r.rows(samples), nil
}

// rows returns the rows of the table, given the samples of each contestant.
func (r race) rows(samples [][]sample) (rows []Row) {
	times, baseline := map[string][]float64{}, ""
	for i, c := range r.contestants {
		times[c.name] = column(samples[i], func(s sample) float64 { return s.NS })
	}
	for _, name := range r.baseline {
		if baseline == "" || median(times[name]) < median(times[baseline]) {
			baseline = name
		}
	}
	for i, c := range r.contestants {
		of := func(number func(sample) float64) float64 { return median(column(samples[i], number)) }
		row := Row{
			What: r.name, Name: c.name, Unit: "ns", Values: times[c.name], Goal: c.goal,
			Bytes:  new(of(func(s sample) float64 { return s.Bytes })),
			Allocs: new(of(func(s sample) float64 { return s.Allocs })),
		}
		if c.name == baseline {
			row.Name += " (baseline)"
		}
		if baseline != "" {
			row.Ratios = ratios(times[baseline], times[c.name])
		}
		if p99 := of(func(s sample) float64 { return s.Facts.P99 }); p99 > 0 {
			row.Note = fmt.Sprintf("p99 %s us, server %s us", number(p99),
				number(of(func(s sample) float64 { return s.Facts.Server })))
		}
		rows = append(rows, row)
	}
	return rows
}

// find returns the contestant of a job.
func find(j job) (contestant, error) {
	for _, p := range Parts() {
		for _, r := range p.races() {
			for _, c := range r.contestants {
				if r.name == j.Race && c.name == j.Contestant {
					return c, nil
				}
			}
		}
	}
	return contestant{}, fmt.Errorf("no contestant %q in a race %q", j.Contestant, j.Race)
}

var errRefused = errors.New("a request was refused that should have been admitted")

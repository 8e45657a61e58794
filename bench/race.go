package bench

import (
	"errors"
	"fmt"
)

// Env holds the addresses of the servers that a contestant may need.
type Env struct {
	Redis   string   // the address of a single server
	Cluster []string // the addresses of the nodes of a cluster, for a race on one
}

// Work does a contestant's operation n times. An error means that an operation
// went wrong: for example, a request was refused that should have been admitted.
type Work func(n int) error

// Contestant is one participant of a race.
type Contestant struct {
	Name string
	Open func(Env) (Work, error) // returns work that is ready to be timed: warm, keys in place
	Goal Goal

	// Latency collects the times of single operations, of which the row notes the 99th
	// percentile. It may be nil.
	Latency *latency
}

// Race compares contestants that do the same work. Each contestant has a process
// of its own, so that the garbage of one costs the others no time. The
// contestants take turns, so that a disturbance of the machine disturbs all.
type Race struct {
	Name        string
	Contestants []Contestant

	// Baseline names the candidates for the baseline. The candidate with the lowest
	// median is the one with which all contestants are compared.
	Baseline []string
}

// add adds a contestant. One that is not of sash has no goal, and is a candidate for the
// baseline.
func (r *Race) add(name string, sash bool, goal Goal, open func(Env) (Work, error)) {
	if !sash {
		goal = Goal{}
		r.Baseline = append(r.Baseline, name)
	}
	r.Contestants = append(r.Contestants, Contestant{Name: name, Goal: goal, Open: open})
}

// sample is the cost of one slice of a contestant's work, per operation. P99 is the
// 99th percentile of the times of single operations, or 0 if they were not measured.
type sample struct{ NS, Bytes, Allocs, P99 float64 }

// run runs the race in workers with the servers of env, and returns its rows.
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
		// The first order shows the worker how fast its contestant is.
		if _, err := workers[i].ask(order{For: c.Slice / 4}); err != nil {
			return nil, err
		}
	}
	samples := make([][]sample, len(workers))
	for range c.Rounds {
		for i, w := range workers {
			a, err := w.ask(order{For: c.Slice})
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], a.Sample)
		}
	}
	return r.rows(samples), nil
}

// baseline returns the name of the contestant with which all are compared, given
// the times of all contestants. The name is empty if the race has no baseline.
func (r Race) baseline(timesByName map[string][]float64) string {
	fastest := ""
	for _, name := range r.Baseline {
		if fastest == "" || median(timesByName[name]) < median(timesByName[fastest]) {
			fastest = name
		}
	}
	return fastest
}

// rows returns the rows of the table, given the samples of each contestant.
func (r Race) rows(samples [][]sample) []Row {
	timesByName := map[string][]float64{}
	for i, contestant := range r.Contestants {
		timesByName[contestant.Name] = column(samples[i], func(s sample) float64 { return s.NS })
	}
	baseline := r.baseline(timesByName)
	var rows []Row
	for i, contestant := range r.Contestants {
		times := timesByName[contestant.Name]
		row := Row{
			What: r.Name, Name: contestant.Name, Unit: "ns", Values: times, Goal: contestant.Goal,
			Bytes:  new(median(column(samples[i], func(s sample) float64 { return s.Bytes }))),
			Allocs: new(median(column(samples[i], func(s sample) float64 { return s.Allocs }))),
		}
		if contestant.Name == baseline {
			row.Name += " (baseline)"
		}
		if baseline != "" {
			row.Ratios = ratios(timesByName[baseline], times)
		}
		if contestant.Latency != nil {
			p99 := median(column(samples[i], func(s sample) float64 { return s.P99 }))
			row.Note = "p99 " + number(p99/1000) + " us"
		}
		rows = append(rows, row)
	}
	return rows
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
	for _, rs := range [][]Race{
		webRaces(), echoRaces(), echo5Races(), decisionRaces(), parallelRaces(), observedRaces(), {memoryRace()},
		throughputRaces(),
	} {
		all = append(all, rs...)
	}
	return all
}

var errRefused = errors.New("a request was refused that should have been admitted")

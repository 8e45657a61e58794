package bench

import (
	"fmt"
)

// memoryRace has one contestant for each library and, of the log, one more with
// longer logs.
func memoryRace() Race {
	r := Race{Name: "heap, bytes per live key"}
	add := func(name string, l library, goal Goal) {
		r.Contestants = append(r.Contestants, Contestant{Name: name, Open: fill(l), Goal: goal})
	}
	for _, l := range libraries() {
		switch l.name {
		case "sash counter":
			add(l.name, l, Goal{Value: new(120.0)})
		case "sash log":
			add(l.name, l, Goal{Value: new(100.0 + 8)})
			add(longLogs, l, Goal{Value: new(100.0 + 8*entriesOfLongLogs)})
		default:
			add(l.name, l, Goal{})
		}
	}
	for _, l := range echoLibraries() {
		if !l.sash {
			add(l.name, l, Goal{})
		}
	}
	return r
}

// fill returns the work of sending a request from each of n clients. Nothing is
// refused: 1,000 an hour is more than any client sends. Ten entries for each of a
// million keys are more than memstore holds by default.
func fill(l library) func(Env) (Work, error) {
	return func(Env) (Work, error) {
		var through served
		visit, err := visitor(l, load{requests: 1000, room: 512 << 20}, &through)
		return func(n int) error {
			through = 0
			for i := range n {
				// A string of its own, as a server makes for each connection: what a
				// library keeps of it is its own to pay.
				visit(address(i))
			}
			if int(through) != n {
				return errRefused
			}
			return nil
		}, err
	}
}

const (
	entriesOfLongLogs = 10
	longLogs          = "sash log, 10 entries"
)

func checkKeys(c Config) error {
	if c.Keys > 1<<24 {
		return fmt.Errorf("-keys %d: there are 2^24 = %d different ones", c.Keys, 1<<24)
	}
	return nil
}

// runMemory fills one library after the other with keys.
func runMemory(c Config) ([]Row, error) {
	var rows []Row
	race := memoryRace()
	for _, contestant := range race.Contestants {
		c.progress("%s: %s", race.Name, contestant.Name)
		bytes, err := bytesPerKey(race, contestant, c.Keys)
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{
			What: fmt.Sprintf("%s of %d", race.Name, c.Keys), Name: contestant.Name, Unit: "B",
			Values: []float64{bytes}, Goal: contestant.Goal,
		})
	}
	return rows, nil
}

func bytesPerKey(r Race, c Contestant, keys int) (float64, error) {
	w, err := startWorker(job{Race: r.Name, Contestant: c.Name})
	if err != nil {
		return 0, err
	}
	defer w.stop()
	passes := 1
	if c.Name == longLogs {
		passes = entriesOfLongLogs
	}
	var a answer
	for range passes {
		if a, err = w.ask(order{N: keys, Heap: true}); err != nil {
			return 0, err
		}
	}
	return float64(a.Heap) / float64(keys), nil
}

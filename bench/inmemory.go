package bench

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

// sink is a response that goes nowhere. Its header is emptied between requests.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// address is the socket address of the i-th client.
func address(i int) string {
	return "10." + strconv.Itoa(i>>16&255) + "." + strconv.Itoa(i>>8&255) + "." + strconv.Itoa(i&255) + ":4711"
}

// scene is the situation of a race in memory.
type scene struct {
	name    string
	keys    int
	refused bool
	load    load
}

const manyKeys = 100_000

func scenes() []scene {
	return []scene{
		// The log is as long as a millisecond at full speed makes it, some thousands;
		// one request expires for each that comes.
		{"admitted, 1 key", 1, false, load{requests: unlimited, log: core.Per(core.MaxLogRequests, core.MinWindow)}},
		{"admitted, 100,000 keys", manyKeys, false, load{requests: unlimited, log: core.Per(10_000, 2*time.Second)}},
		{"refused, 1 key", 1, true, load{requests: 1}},
		{"refused, 100,000 keys", manyKeys, true, load{requests: 1}},
	}
}

// served counts the requests that came through.
type served int

func (s *served) ServeHTTP(http.ResponseWriter, *http.Request) { *s++ }

// open wraps a handler that counts, lets every client come twice, so that all
// keys are there and those that are to be refused are, and returns the work:
// requests of all clients in an order that no cache foresees.
func (s scene) open(l library) func(Env) (Work, error) {
	return func(Env) (Work, error) {
		var through served
		h, err := l.wrap(s.load, &through)
		if err != nil {
			return nil, err
		}
		clients := make([]string, s.keys)
		for i := range clients {
			clients[i] = address(i)
		}
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		if err != nil {
			return nil, err
		}
		w := sink{http.Header{}}
		next := 0
		do := func(n int) {
			for range n {
				r.RemoteAddr = clients[next]
				if next++; next == len(clients) {
					next = 0
				}
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		}
		do(2 * len(clients))
		rng := rand.New(rand.NewPCG(1, 2))
		rng.Shuffle(len(clients), func(i, j int) { clients[i], clients[j] = clients[j], clients[i] })
		return func(n int) error {
			through = 0
			do(n)
			return s.check(int(through), n)
		}, nil
	}
}

// check says whether a batch of requests went as the scene has it.
func (s scene) check(through, n int) error {
	if s.refused && through > 0 {
		return fmt.Errorf("%d of %d requests were admitted that should have been refused", through, n)
	}
	if !s.refused && through < n {
		return fmt.Errorf("%d of %d: %w", n-through, n, errRefused)
	}
	return nil
}

// bare is what the harness itself costs: the handler with nothing around it.
func bare() library {
	return library{"no limiter", false, func(_ load, next http.Handler) (http.Handler, error) { return next, nil }}
}

func webRaces() []Race {
	goals := map[int]map[string]float64{
		1:        {"sash counter": 4.5, "sash log": 3.3},
		manyKeys: {"sash counter": 3.5, "sash log": 3},
	}
	var races []Race
	for _, s := range scenes() {
		r := Race{Name: "net/http, " + s.name}
		for _, l := range libraries() {
			c := Contestant{Name: l.name, Open: s.open(l)}
			if l.sash {
				c.Goal = Goal{Ratio: new(goals[s.keys][l.name]), Allocs: new(2.0)}
			} else {
				r.Baseline = append(r.Baseline, l.name)
			}
			r.Contestants = append(r.Contestants, c)
		}
		if !s.refused {
			r.Contestants = append(r.Contestants, Contestant{Name: bare().name, Open: s.open(bare())})
		}
		races = append(races, r)
	}
	return races
}

func echoRaces() []Race {
	var races []Race
	for _, s := range scenes() {
		r := Race{Name: "echo, " + s.name}
		for _, l := range echoLibraries() {
			c := Contestant{Name: l.name, Open: s.open(l)}
			if l.sash {
				c.Goal = Goal{Ratio: new(1.0)}
			} else {
				r.Baseline = append(r.Baseline, l.name)
			}
			r.Contestants = append(r.Contestants, c)
		}
		races = append(races, r)
	}
	return races
}

func decisionRaces() []Race {
	var races []Race
	for _, s := range scenes() {
		if s.keys > 1 {
			continue
		}
		r := Race{Name: "decision, " + s.name}
		for _, d := range deciders() {
			c := Contestant{Name: d.name, Open: func(Env) (Work, error) {
				allow, err := d.make(s.load)
				if err != nil {
					return nil, err
				}
				allow()
				return func(n int) error {
					through := 0
					for range n {
						if allow() {
							through++
						}
					}
					return s.check(through, n)
				}, nil
			}}
			if d.sash {
				c.Goal = Goal{Ratio: new(1.0), Allocs: new(0.0)}
			} else {
				r.Baseline = append(r.Baseline, d.name)
			}
			r.Contestants = append(r.Contestants, c)
		}
		races = append(races, r)
	}
	return races
}

// memoryRace has one contestant for each library and, of the log, one more with
// longer logs.
func memoryRace() Race {
	r := Race{Name: "heap, bytes per live key"}
	add := func(name string, l library, goal float64) {
		c := Contestant{Name: name, Open: func(Env) (Work, error) {
			var through served
			// Nothing is refused: 1,000 an hour is more than anybody sends. Ten
			// entries for each of a million keys are more than memstore holds by
			// default.
			h, err := l.wrap(load{requests: 1000, room: 512 << 20}, &through)
			if err != nil {
				return nil, err
			}
			r, err := http.NewRequest(http.MethodGet, "/", nil)
			if err != nil {
				return nil, err
			}
			w := sink{http.Header{}}
			return func(n int) error {
				through = 0
				for i := range n {
					// A string of its own, as a server makes for each
					// connection: what a library keeps of it is its own to pay.
					r.RemoteAddr = address(i)
					clear(w.header)
					h.ServeHTTP(w, r)
				}
				if int(through) != n {
					return errRefused
				}
				return nil
			}, nil
		}}
		if goal > 0 {
			c.Goal.Value = new(goal)
		}
		r.Contestants = append(r.Contestants, c)
	}
	for _, l := range libraries() {
		switch l.name {
		case "sash counter":
			add(l.name, l, 120)
		case "sash log":
			add(l.name, l, 100+8)
			add(longLogs, l, 100+8*entriesOfLongLogs)
		default:
			add(l.name, l, 0)
		}
	}
	for _, l := range echoLibraries() {
		if !l.sash {
			add(l.name, l, 0)
		}
	}
	return r
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

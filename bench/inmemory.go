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

// visitor returns a function that sends a request from an address through a library to
// a handler. Nothing else may use the library.
func visitor(l library, limit load, handler http.Handler) (visit func(address string), err error) {
	h, err := l.wrap(limit, handler)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	w := sink{http.Header{}}
	return func(address string) {
		r.RemoteAddr = address
		clear(w.header)
		h.ServeHTTP(w, r)
	}, nil
}

// open lets every client come twice, so that all keys are there and those that are to
// be refused are, and returns the work: requests of all clients in an order that no
// cache foresees.
func (s scene) open(l library) func(Env) (Work, error) {
	return func(Env) (Work, error) {
		var through served
		visit, err := visitor(l, s.load, &through)
		if err != nil {
			return nil, err
		}
		clients := make([]string, s.keys)
		for i := range clients {
			clients[i] = address(i)
			visit(clients[i])
			visit(clients[i])
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(clients), func(i, j int) {
			clients[i], clients[j] = clients[j], clients[i]
		})
		next := 0
		return func(n int) error {
			through = 0
			for range n {
				visit(clients[next])
				if next++; next == len(clients) {
					next = 0
				}
			}
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

// middlewareRaces compares the middleware of a kind of server in each scene. goal
// returns the goal of a library of sash.
func middlewareRaces(server string, libraries []library, goal func(scene, string) Goal) []Race {
	var races []Race
	for _, s := range scenes() {
		r := Race{Name: server + ", " + s.name}
		for _, l := range libraries {
			r.add(l.name, l.sash, goal(s, l.name), s.open(l))
		}
		races = append(races, r)
	}
	return races
}

func webRaces() []Race {
	goals := map[int]map[string]float64{
		1:        {"sash counter": 4.5, "sash log": 3.3},
		manyKeys: {"sash counter": 3.5, "sash log": 3},
	}
	races := middlewareRaces("net/http", libraries(), func(s scene, name string) Goal {
		return Goal{Ratio: new(goals[s.keys][name]), Allocs: new(mostAllocs)}
	})
	// What the harness itself costs: the handler with nothing around it.
	bare := library{"no limiter", false, func(_ load, next http.Handler) (http.Handler, error) { return next, nil }}
	for i, s := range scenes() {
		if !s.refused {
			races[i].Contestants = append(races[i].Contestants, Contestant{Name: bare.name, Open: s.open(bare)})
		}
	}
	return races
}

func echoRaces() []Race  { return frameworkRaces("echo", echoLibraries()) }
func echo5Races() []Race { return frameworkRaces("echo v5", echo5Libraries()) }

// frameworkRaces compares sash in a framework with the framework's own limiter.
func frameworkRaces(name string, libraries []library) []Race {
	return middlewareRaces(name, libraries, func(scene, string) Goal { return Goal{Ratio: new(1.0)} })
}

func decisionRaces() []Race {
	var races []Race
	for _, s := range scenes() {
		if s.keys > 1 {
			continue
		}
		r := Race{Name: "decision, " + s.name}
		for _, d := range oneKeyDeciders() {
			r.add(d.name, d.sash, Goal{Ratio: new(1.0), Allocs: new(0.0)}, s.decide(d))
		}
		races = append(races, r)
	}
	return races
}

// decide asks a decider about one key, once before the work begins.
func (s scene) decide(d decider) func(Env) (Work, error) {
	return func(Env) (Work, error) {
		const key = "user:42"
		allow, err := d.make(s.load)
		if err != nil {
			return nil, err
		}
		_, err = allow(key)
		return func(n int) error {
			through := 0
			for range n {
				if ok, _ := allow(key); ok {
					through++
				}
			}
			return s.check(through, n)
		}, err
	}
}

package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
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

// addresses returns so many of them, in an order that no cache foresees.
func addresses(n int) []string {
	all := make([]string, n)
	for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		all[i] = address(j)
	}
	return all
}

// scene is the situation of a race of middleware.
type scene struct {
	name    string
	keys    int
	refused bool
	load    load
}

func scenes() []scene {
	const manyKeys = 100_000
	// The log of one key is as long as a millisecond at full speed makes it, some thousands; one request expires for
	// each that comes.
	short := load{requests: unlimited, window: time.Hour, log: core.Per(core.MaxLogRequests, core.MinWindow)}
	long := load{requests: unlimited, window: time.Hour, log: core.Per(10_000, 2*time.Second)}
	return []scene{
		{"admitted, 1 key", 1, false, short},
		{"admitted, 100,000 keys", manyKeys, false, long},
		{"refused, 1 key", 1, true, perHour(1)},
		{"refused, 100,000 keys", manyKeys, true, perHour(1)},
	}
}

// served counts the requests that came through.
type served int

func (s *served) ServeHTTP(http.ResponseWriter, *http.Request) { *s++ }

// visitor returns a function that sends a request from an address through a library to a handler. Nothing else may use
// the library.
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

// open lets every client come twice, so that all keys are there and those that are to be refused are, and returns the
// work: requests of all clients.
func (s scene) open(l library) func(Env) (work, error) {
	return func(Env) (work, error) {
		var through served
		visit, err := visitor(l, s.load, &through)
		if err != nil {
			return work{}, err
		}
		clients, next := addresses(s.keys), 0
		do := func(n int) error {
			for range n {
				visit(clients[next])
				if next++; next == len(clients) {
					next = 0
				}
			}
			return nil
		}
		return work{do: func(n int) error {
			through = 0
			return errors.Join(do(n), s.check(int(through), n))
		}}, do(2 * s.keys)
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

// webRaces compare the middleware of each kind of server in each scene. echo v4's own writes no fields, so it is no
// measure where it admits.
func webRaces() (races []race) {
	for _, server := range []struct {
		name      string
		libraries []library
		goal      Goal
	}{
		{"net/http", libraries(), Goal{Ratio: new(1.0)}},
		{"echo v4", echoLibraries(), Goal{}},
		{"echo v5", echo5Libraries(), Goal{Ratio: new(1.0)}},
	} {
		for _, s := range scenes() {
			r := race{name: server.name + ", " + s.name}
			for _, l := range server.libraries {
				r.add(l.name, l.sash, server.goal, s.open(l))
			}
			races = append(races, r)
		}
	}
	return races
}

// add adds a contestant. One that is not of sash has no goal, and is a candidate for the baseline.
func (r *race) add(name string, sash bool, goal Goal, open func(Env) (work, error)) {
	if !sash {
		goal = Goal{}
		r.baseline = append(r.baseline, name)
	}
	r.contestants = append(r.contestants, contestant{name, open, goal})
}

// decisionRaces have a log that holds some entries of each key.
func decisionRaces() (races []race) {
	// The rings of a log grow now and then, and a coarse log gets one with its second slot.
	goals := map[string]Goal{
		"sash counter": {Ratio: new(1.0), Allocs: new(0.0)},
		"sash log":     {Ratio: new(0.8)},
		"sash bucket":  {Allocs: new(0.0)},
	}
	for _, keys := range []int{1000, 1_000_000} {
		l := load{requests: unlimited, window: time.Hour, room: 1 << 30}
		l.log = core.Per(core.MaxLogRequests, max(core.MinWindow, time.Duration(keys)*core.MinWindow/100))
		for _, goroutines := range []int{1, 2} {
			r := race{name: fmt.Sprintf("decisions, goroutines: %d, keys: %d", goroutines, keys)}
			for _, d := range deciders() {
				r.add(d.name, d.sash, goals[d.name], d.decide(l, goroutines, keys))
			}
			races = append(races, r)
		}
	}
	return races
}

// decide is the work of goroutines that ask about so many keys, and none is refused.
func (d decider) decide(l load, goroutines, keys int) func(Env) (work, error) {
	return func(Env) (work, error) {
		allow, err := d.open(l)
		if err != nil {
			return work{}, err
		}
		clients, next := addresses(keys), 0
		do := func(n int) error {
			failed := make([]error, goroutines)
			var group sync.WaitGroup
			for g := range failed {
				first := next + g*keys/goroutines
				group.Go(func() {
					for i := range (n + goroutines - 1) / goroutines {
						if ok, err := allow(clients[(first+i)%keys]); err != nil || !ok {
							failed[g] = fmt.Errorf("%w: %v", errRefused, err)
						}
					}
				})
			}
			group.Wait()
			next += n / goroutines
			return errors.Join(failed...)
		}
		return work{do: do}, do(2 * keys)
	}
}

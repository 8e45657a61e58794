package bench

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/heaviest"
	"github.com/sashlimit/sash/extra/sashprom"
)

// mostAllocs allows for what one request in 64 is kept for: the guard looks whether a second one counts it.
const mostAllocs = 2.1

// mostObserved bounds the time of a request with an observer, as a multiple of the time without.
const mostObserved = 1.35

// observed returns the middleware of sash with an observer.
func observed(name string, observer func() core.Observer) library {
	return library{name, true, func(l load, next http.Handler) (http.Handler, error) {
		limiter, err := l.inMemory(core.SlidingLog, observer())
		if err != nil {
			return nil, err
		}
		return sashHTTP(limiter, next), nil
	}}
}

// observedRaces compare requests with observers to requests without.
func observedRaces() []Race {
	const none = "no observer"
	contestants := []library{
		observed(none, func() core.Observer { return core.Silent }),
		observed("sashprom", func() core.Observer { return core.Must(sashprom.New()).For("memory") }),
		observed("sashprom by route", func() core.Observer {
			return core.Must(sashprom.New(sashprom.ByRoute())).For("memory")
		}),
		observed("heaviest", func() core.Observer { return core.Must(heaviest.New(100)) }),
	}
	races := middlewareRaces("observers", contestants, func(_ scene, name string) Goal {
		if name == none {
			return Goal{Allocs: new(mostAllocs)}
		}
		return Goal{Ratio: new(1 / mostObserved), Allocs: new(mostAllocs)}
	})
	for i := range races {
		races[i].Baseline = []string{none}
	}
	return races
}

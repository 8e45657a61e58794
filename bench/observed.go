package bench

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/heaviest"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashprom"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// mostObserved is how many times as long a request with an observer may take.
const mostObserved = 1.35

// observed returns the middleware of sash with an observer. Nil is none.
func observed(name string, observer func() core.Observer) library {
	return library{name, true, func(l load, next http.Handler) (http.Handler, error) {
		config := core.Config{
			Name: "bench", Store: memstore.New(),
			Limits: []core.Limit{l.limit(core.SlidingLog)}, OnStoreError: core.FailClosed, Observer: core.Silent,
		}
		if observer != nil {
			config.Observer = observer()
		}
		limiter, err := core.New(config)
		if err != nil {
			return nil, err
		}
		return nethttp.Middleware(limiter, keyfuncs.RemoteIP)(next), nil
	}}
}

// observedRaces compare requests with observers to requests without.
func observedRaces() []Race {
	const none = "no observer"
	contestants := []library{
		observed(none, nil),
		observed("sashprom", func() core.Observer { return sashprom.New().For("memory") }),
		observed("sashprom by route", func() core.Observer { return sashprom.New(sashprom.ByRoute()).For("memory") }),
		observed("heaviest", func() core.Observer { return heaviest.New(100) }),
	}
	var races []Race
	for _, s := range scenes() {
		r := Race{Name: "observers, " + s.name, Baseline: []string{none}}
		for _, l := range contestants {
			c := Contestant{Name: l.name, Open: s.open(l), Goal: Goal{Allocs: new(2.0)}}
			if l.name != none {
				c.Goal.Ratio = new(1 / mostObserved)
			}
			r.Contestants = append(r.Contestants, c)
		}
		races = append(races, r)
	}
	return races
}

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/labstack/echo/v4/middleware"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/sashlimit/sash/core"
)

// keyed decides about any key, without HTTP, for many goroutines.
type keyed struct {
	name string
	sash bool
	make func(load) (allow func(key string) (bool, error), err error)
}

func keyedDeciders() []keyed {
	ctx := context.Background()
	sash := func(a core.Algorithm) func(load) (func(string) (bool, error), error) {
		return func(l load) (func(string) (bool, error), error) {
			limiter, err := l.inMemory(a)
			if err != nil {
				return nil, err
			}
			return func(key string) (bool, error) {
				d := limiter.Allow(ctx, key)
				return d.Allowed, d.Err
			}, nil
		}
	}
	return []keyed{
		{"sash counter", true, sash(core.SlidingCounter)},
		{"sash log", true, sash(core.SlidingLog)},
		{"ulule", false, func(l load) (func(string) (bool, error), error) {
			limiter := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: int64(l.requests)})
			return func(key string) (bool, error) {
				d, err := limiter.Get(ctx, key)
				return !d.Reached, err
			}, nil
		}},
		{"throttled", false, func(l load) (func(string) (bool, error), error) {
			store, err := throttledmem.NewCtx(0)
			if err != nil {
				return nil, err
			}
			limiter, err := throttled.NewGCRARateLimiterCtx(store, l.gcra())
			return func(key string) (bool, error) {
				limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
				return !limited, err
			}, err
		}},
		{"go-limiter", false, func(l load) (func(string) (bool, error), error) {
			store, err := newGoLimiter(l)
			return func(key string) (bool, error) {
				_, _, _, ok, err := store.Take(ctx, key)
				return ok, err
			}, err
		}},
		{"tollbooth", false, func(l load) (func(string) (bool, error), error) {
			limiter := tollbooth.NewLimiter(l.perSecond(), nil).SetBurst(l.requests)
			return func(key string) (bool, error) { return !limiter.LimitReached(key), nil }, nil
		}},
		{"echo RateLimiter", false, func(l load) (func(string) (bool, error), error) {
			store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
				Rate: rate.Limit(l.perSecond()), Burst: l.requests, ExpiresIn: time.Hour,
			})
			return store.Allow, nil
		}},
	}
}

// callers are some goroutines that ask about so many keys, and none is refused.
type callers struct {
	goroutines, keys int
	load             load
}

func (c callers) open(d keyed) func(Env) (Work, error) {
	return func(Env) (Work, error) {
		allow, err := d.make(c.load)
		if err != nil {
			return nil, err
		}
		keys := make([]string, c.keys)
		for i := range keys {
			keys[i] = address(i)
		}
		some := func(first, n int) error {
			for i := range n {
				if ok, err := allow(keys[(first+i)%len(keys)]); err != nil || !ok {
					return fmt.Errorf("%w: %v", errRefused, err)
				}
			}
			return nil
		}
		if err := some(0, 2*c.keys); err != nil {
			return nil, err
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		next := 0
		return func(n int) error {
			failed := make([]error, c.goroutines)
			var group sync.WaitGroup
			for g := range failed {
				first := next + g*c.keys/c.goroutines
				group.Go(func() { failed[g] = some(first, n/c.goroutines+1) })
			}
			group.Wait()
			next += n / c.goroutines
			for _, err := range failed {
				if err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
}

// parallelRaces have a log that holds some entries of each key.
func parallelRaces() []Race {
	var races []Race
	for _, keys := range []int{1000, 1_000_000} {
		log := core.Per(core.MaxLogRequests, time.Duration(keys)*core.MinWindow/100)
		for _, goroutines := range []int{1, 2} {
			c := callers{goroutines, keys, load{requests: unlimited, log: log, room: 512 << 20}}
			r := Race{Name: fmt.Sprintf("decisions in parallel, goroutines: %d, keys: %d", goroutines, keys)}
			for _, d := range keyedDeciders() {
				contestant := Contestant{Name: d.name, Open: c.open(d)}
				if !d.sash {
					r.Baseline = append(r.Baseline, d.name)
				}
				r.Contestants = append(r.Contestants, contestant)
			}
			races = append(races, r)
		}
	}
	return races
}

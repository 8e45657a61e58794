package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// contestant returns the contestant that decides in a number of goroutines at once.
func (r remote) contestant(goroutines int, goal Goal) Contestant {
	times := new(latency)
	return Contestant{Name: r.name, Goal: goal, Latency: times, Open: func(env Env) (Work, error) {
		var rdb redis.UniversalClient
		if len(env.Cluster) > 0 {
			rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: env.Cluster})
		} else {
			rdb = redis.NewClient(&redis.Options{Addr: env.Redis})
		}
		decide, err := r.open(rdb, env)
		if err != nil {
			return nil, err
		}
		work := inGoroutines(goroutines, decide, times)
		return work, work(2 * remoteClients) // creates every key
	}}
}

// inGoroutines returns the work of calling decide in a number of goroutines at once,
// with the next number each time. The work ends with the first error. The first of the
// goroutines notes in times how long its calls take.
func inGoroutines(goroutines int, decide func(i int) error, times *latency) Work {
	var next atomic.Int64
	return func(n int) error {
		end := next.Load() + int64(n)
		errs := make(chan error, goroutines)
		var wg sync.WaitGroup
		for g := range min(goroutines, n) {
			decide := decide
			if g == 0 {
				decide = times.noting(decide)
			}
			wg.Go(func() {
				for i := next.Add(1); i <= end; i = next.Add(1) {
					if err := decide(int(i)); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		next.Store(end)
		close(errs)
		return <-errs
	}
}

// Names of the races.
const (
	one       = "Redis, 1 goroutine"
	four      = "Redis, 4 goroutines"
	crowd     = "Redis, 64 goroutines"
	lone      = "Redis, a lone caller: "
	onCluster = "Redis Cluster of 3 masters, 64 goroutines"
	flood     = "Redis, a flood on a client that is refused"
)

// throughputRaces returns the races of limiters that decide through Redis.
func throughputRaces() []Race {
	few := []string{"redis_rate", "sash counter", "sash log"}
	many := append(few, "ulule", "throttled", returnOne)
	return []Race{
		remoteRace(one, 1, few, map[string]float64{"sash counter": 1, "sash log": 1}),
		remoteRace(four, 4, few, map[string]float64{"sash counter": 1, "sash log": 1}),
		remoteRace(crowd, 64, many, map[string]float64{"sash counter": 4.5, "sash log": 3.5}),
		remoteRace(onCluster, 64, many, map[string]float64{"sash counter": 2.2, "sash log": 2.2}),
		// A caller without company: each decision sent alone, sash as it is, and its
		// script without the library.
		remoteRace(lone+"sash counter", 1, []string{aloneCounter, "sash counter", plainCounter},
			map[string]float64{"sash counter": 1 / 1.05}),
		remoteRace(lone+"sash log", 1, []string{aloneLog, "sash log", plainLog},
			map[string]float64{"sash log": 1 / 1.05}),
		floodRace(),
	}
}

// remoteRace compares the named limiters by their decisions in a number of goroutines.
// The first name is the baseline. ratioByName holds the goals.
func remoteRace(name string, goroutines int, contestants []string, ratioByName map[string]float64) Race {
	r := Race{Name: name, Baseline: contestants[:1]}
	for _, remote := range remotes(unlimited) {
		if !slices.Contains(contestants, remote.name) {
			continue
		}
		goal := Goal{}
		if ratio, ok := ratioByName[remote.name]; ok {
			goal.Ratio = new(ratio)
		}
		r.Contestants = append(r.Contestants, remote.contestant(goroutines, goal))
	}
	return r
}

// floodBaseline is the baseline of floodRace.
const floodBaseline = "sash log, in memory"

// floodRace compares refusals for which sash does not ask Redis with refusals of a
// store in memory.
func floodRace() Race {
	goal := Goal{Ratio: new(1 / 1.05), Allocs: new(0.0)}
	return Race{Name: flood, Baseline: []string{floodBaseline}, Contestants: []Contestant{
		refusedContestant("sash counter", core.SlidingCounter, goal),
		refusedContestant("sash log", core.SlidingLog, goal),
		refusedContestant(floodBaseline, core.SlidingLog, Goal{}),
	}}
}

// refusedContestant returns a contestant that refuses one client. Its work fails if
// the refusals ask Redis more than once a second.
func refusedContestant(name string, algorithm core.Algorithm, goal Goal) Contestant {
	return Contestant{Name: name, Goal: goal, Open: func(env Env) (Work, error) {
		const key = "ip:198.51.100.7"
		ctx := context.Background()
		var store core.Store = redisstore.New(redis.NewClient(&redis.Options{Addr: env.Redis}))
		if name == floodBaseline {
			store = memstore.New()
		}
		l, err := waiting(time.Second, name, store, core.PerHour(1).Using(algorithm))
		if err != nil {
			return nil, err
		}
		server, err := dial(env.Redis)
		if err != nil {
			return nil, err
		}
		l.Allow(ctx, key)
		return func(n int) error {
			start := time.Now()
			before, _, err := server.scriptStats()
			if err != nil {
				return err
			}
			for range n {
				if d := l.Allow(ctx, key); d.Allowed || d.Err != nil {
					return fmt.Errorf("not refused: %+v", d)
				}
			}
			after, _, err := server.scriptStats()
			// sash asks Redis once a second, to see a reset by another process.
			if most := int64(time.Since(start)/time.Second) + 1; err == nil && after-before > most {
				err = fmt.Errorf("%d refusals asked Redis %d times, want %d at most", n, after-before, most)
			}
			return err
		}, nil
	}}
}

// runThroughput runs the races on servers that it starts.
func runThroughput(c Config) ([]Row, error) {
	c.Slice *= 2 // 64 goroutines take some time to start and to end
	return runRaces(c, throughputRaces(), withRedis)
}

// withRedis calls f with new servers for a race.
func withRedis(r Race, f func(Env) error) error {
	if r.Name == onCluster {
		return withServers(threeMasters, func(c *redistest.Cluster) error { return f(Env{Cluster: c.Addrs()}) })
	}
	return withServers(single, func(s *redistest.Server) error { return f(Env{Redis: s.Addr()}) })
}

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
	few := []string{"sash counter", "sash log", "redis_rate"}
	many := append(few, "ulule", "throttled", returnOne)
	return []Race{
		redisRateRace(one, 1, few, map[string]float64{"sash counter": 1, "sash log": 1}),
		redisRateRace(four, 4, few, map[string]float64{"sash counter": 1, "sash log": 1}),
		redisRateRace(crowd, 64, many, map[string]float64{"sash counter": 4.5, "sash log": 3.5}),
		redisRateRace(onCluster, 64, many, map[string]float64{"sash counter": 2.2, "sash log": 2.2}),
		loneRace("sash counter", aloneCounter, plainCounter),
		loneRace("sash log", aloneLog, plainLog),
		floodRace(),
	}
}

// redisRateRace compares limiters with redis_rate, by their decisions in a number of
// goroutines. ratioByName holds the goals.
func redisRateRace(name string, goroutines int, contestants []string, ratioByName map[string]float64) Race {
	r := Race{Name: name, Baseline: []string{"redis_rate"}}
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

// loneRace compares sash for a caller without company: as it is, with each decision
// sent alone (the baseline), and its script without the library.
func loneRace(sash, alone, plain string) Race {
	r := Race{Name: lone + sash, Baseline: []string{alone}}
	for _, remote := range remotes(unlimited) {
		switch remote.name {
		case sash:
			r.Contestants = append(r.Contestants, remote.contestant(1, Goal{Ratio: new(1 / 1.05)}))
		case alone, plain:
			r.Contestants = append(r.Contestants, remote.contestant(1, Goal{}))
		}
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
		l, err := core.New(core.Config{
			Name:         name,
			Store:        store,
			Limits:       []core.Limit{core.PerHour(1).Using(algorithm)},
			OnStoreError: core.FailClosed,
			Timeout:      time.Second,
		})
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
	var rows []Row
	for _, race := range throughputRaces() {
		c.progress("%s", race.Name)
		more, err := again(time.Now, func() (rows []Row, err error) {
			err = withRedis(race, func(env Env) error {
				rows, err = race.run(c, env)
				return err
			})
			return rows, err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", race.Name, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// withRedis calls f with new servers for a race.
func withRedis(r Race, f func(Env) error) error {
	if r.Name == onCluster {
		return withServers(threeMasters, func(c *redistest.Cluster) error { return f(Env{Cluster: c.Addrs()}) })
	}
	return withServers(single, func(s *redistest.Server) error { return f(Env{Redis: s.Addr()}) })
}

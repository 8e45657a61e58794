package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	redisrate "github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// opener prepares a limiter. decide decides request i, about one of 1,000 clients in
// turn, and returns errRefused if the request is refused.
type opener func(redis.UniversalClient, Env) (decide func(i int) error, err error)

// remote is a limiter that decides through a client of Redis. Only the address of
// the client is set.
type remote struct {
	name string
	open opener
}

const remoteClients = 1000

// remotes returns the limiters that are compared, with a limit of requests an hour.
func remotes(requests int) []remote {
	names := make([]string, remoteClients)
	for i := range names {
		names[i] = client(i)
	}
	log := core.PerHour(min(int64(requests), core.MaxLogRequests))
	counter := core.PerHour(int64(requests)).Using(core.SlidingCounter)
	return []remote{
		{"sash counter", openSash(names, counter)},
		{"sash log", openSash(names, log)},
		{"redis_rate", openRedisRate(names, requests)},
		{"ulule", openUlule(names, requests)},
		{"throttled", openThrottled(names, requests)},
		{aloneCounter, openAlone(names, counter)},
		{aloneLog, openAlone(names, log)},
		{plainCounter, openPlain(counter)},
		{plainLog, openPlain(log)},
		{returnOne, openReturnOne(names)},
	}
}

const (
	aloneCounter = "sash counter, not batched"
	aloneLog     = "sash log, not batched"
)

// Scripts as go-redis sends them without a library: two scripts of sash, and one
// that does nothing.
const (
	returnOne    = "return 1, plain EVALSHA"
	plainCounter = "counter script, plain EVALSHA"
	plainLog     = "log script, plain EVALSHA"
)

// openSash returns the opener of sash.
func openSash(names []string, limit core.Limit, options ...redisstore.Option) opener {
	return func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
		limiter, err := core.New(core.Config{
			Name:         "bench",
			Store:        redisstore.New(rdb, options...),
			Limits:       []core.Limit{limit},
			OnStoreError: core.FailClosed,
			Timeout:      time.Second, // a stall of a busy machine is no result
		})
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return func(i int) error { return admitted(limiter.Allow(ctx, names[i%remoteClients])) }, nil
	}
}

// openAlone returns the opener of sash with a Ring of one server: sash sends each
// decision of a Ring alone.
func openAlone(names []string, limit core.Limit) opener {
	return func(_ redis.UniversalClient, env Env) (func(int) error, error) {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": env.Redis}})
		return openSash(names, limit, redisstore.WithPrefix("alone"))(ring, env)
	}
}

// openPlain returns the opener of sash's script without sash.
func openPlain(limit core.Limit) opener {
	return func(rdb redis.UniversalClient, env Env) (func(int) error, error) {
		ctx := context.Background()
		calls, err := plainCalls(env.Redis, remoteClients, limit)
		return func(i int) error { return rdb.Do(ctx, calls[i%remoteClients]...).Err() }, err
	}
}

// openReturnOne returns the opener of a script that does nothing.
func openReturnOne(names []string) opener {
	return func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
		ctx := context.Background()
		one := redis.NewScript("return 1")
		return func(i int) error { return one.Run(ctx, rdb, []string{names[i%remoteClients]}).Err() }, nil
	}
}

// openRedisRate returns the opener of redis_rate.
func openRedisRate(names []string, requests int) opener {
	return func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
		ctx := context.Background()
		limiter := redisrate.NewLimiter(rdb)
		limit := redisrate.Limit{Rate: requests, Burst: requests, Period: time.Hour}
		return func(i int) error {
			result, err := limiter.Allow(ctx, names[i%remoteClients], limit)
			if err == nil && result.Allowed == 0 {
				err = errRefused
			}
			return err
		}, nil
	}
}

// openUlule returns the opener of ulule's limiter.
func openUlule(names []string, requests int) opener {
	return func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
		ctx := context.Background()
		store, err := ululeredis.NewStore(rdb)
		if err != nil {
			return nil, err
		}
		limiter := ulule.New(store, ulule.Rate{Period: time.Hour, Limit: int64(requests)})
		return func(i int) error {
			result, err := limiter.Get(ctx, names[i%remoteClients])
			if err == nil && result.Reached {
				err = errRefused
			}
			return err
		}, nil
	}
}

// openThrottled returns the opener of throttled.
func openThrottled(names []string, requests int) opener {
	return func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
		ctx := context.Background()
		store, err := throttledredis.NewCtx(rdb, "throttled:")
		if err != nil {
			return nil, err
		}
		limiter, err := throttled.NewGCRARateLimiterCtx(store, load{requests: requests}.gcra())
		if err != nil {
			return nil, err
		}
		limiter.SetMaxCASAttemptsLimit(1000) // with few keys, its attempts collide
		return func(i int) error {
			limited, _, err := limiter.RateLimitCtx(ctx, names[i%remoteClients], 1)
			if err == nil && limited {
				err = errRefused
			}
			return err
		}, nil
	}
}

// contestant returns the contestant that decides in a number of goroutines at once.
func (r remote) contestant(goroutines int, goal Goal) Contestant {
	return Contestant{Name: r.name, Goal: goal, Open: func(env Env) (Work, error) {
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
		work := inGoroutines(goroutines, decide)
		return work, work(2 * remoteClients) // creates every key
	}}
}

// inGoroutines returns the work of calling decide in a number of goroutines at once,
// with the next number each time. The work ends with the first error.
func inGoroutines(goroutines int, decide func(i int) error) Work {
	var next atomic.Int64
	return func(n int) error {
		end := next.Load() + int64(n)
		errs := make(chan error, goroutines)
		var wg sync.WaitGroup
		for range min(goroutines, n) {
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
	crowd     = "Redis, 64 goroutines"
	lone      = "Redis, a lone caller: "
	onCluster = "Redis Cluster of 3 masters, 64 goroutines"
	flood     = "Redis, a flood on a client that is refused"
)

// throughputRaces returns the races of limiters that decide through Redis.
func throughputRaces() []Race {
	goalsByRace := map[string]map[string]float64{
		crowd:     {"sash counter": 4.5, "sash log": 3.5},
		onCluster: {"sash counter": 2.2, "sash log": 2.2},
	}
	var races []Race
	for _, name := range []string{crowd, onCluster} {
		r := Race{Name: name, Baseline: []string{"redis_rate"}}
		for _, remote := range remotes(unlimited) {
			switch remote.name {
			case aloneCounter, aloneLog, plainCounter, plainLog:
				continue // a contestant of the lone caller only
			}
			goal := Goal{}
			if ratio, ok := goalsByRace[name][remote.name]; ok {
				goal.Ratio = new(ratio)
			}
			r.Contestants = append(r.Contestants, remote.contestant(64, goal))
		}
		races = append(races, r)
	}
	return append(races,
		loneRace("sash counter", aloneCounter, plainCounter),
		loneRace("sash log", aloneLog, plainLog),
		floodRace())
}

// loneRace compares sash for a caller without company: as it is, with each decision
// sent alone (the baseline), and its script without the library. redis_rate is the
// fourth contestant.
func loneRace(sash, alone, plain string) Race {
	r := Race{Name: lone + sash, Baseline: []string{alone}}
	for _, remote := range remotes(unlimited) {
		switch remote.name {
		case sash:
			r.Contestants = append(r.Contestants, remote.contestant(1, Goal{Ratio: new(1 / 1.05)}))
		case alone, plain, "redis_rate":
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

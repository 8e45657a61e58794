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

// remote decides through a client with nothing set but its address, about 1,000
// names in turn.
type remote struct {
	name string
	open func(redis.UniversalClient, Env) (decide func(i int) error, err error)
}

const remoteClients = 1000

// remotes enforce so many requests an hour.
func remotes(requests int) []remote {
	ctx := context.Background()
	names := make([]string, remoteClients)
	for i := range names {
		names[i] = client(i)
	}
	sash := func(limit core.Limit, options ...redisstore.Option) func(redis.UniversalClient, Env) (func(int) error, error) {
		return func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
			limiter, err := core.New(core.Config{
				Name: "bench", Store: redisstore.New(rdb, options...), Limits: []core.Limit{limit}, OnStoreError: core.FailClosed,
				Timeout: time.Second, // a stall of a busy machine is no result
			})
			if err != nil {
				return nil, err
			}
			return func(i int) error { return admitted(limiter.Allow(ctx, names[i%remoteClients])) }, nil
		}
	}
	plain := func(limit core.Limit) func(redis.UniversalClient, Env) (func(int) error, error) {
		return func(rdb redis.UniversalClient, env Env) (func(int) error, error) {
			calls, err := plainCalls(env.Redis, remoteClients, limit)
			return func(i int) error { return rdb.Do(ctx, calls[i%remoteClients]...).Err() }, err
		}
	}
	// A Ring of one server, whose decisions sash sends one by one.
	alone := func(limit core.Limit) func(redis.UniversalClient, Env) (func(int) error, error) {
		return func(_ redis.UniversalClient, env Env) (func(int) error, error) {
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": env.Redis}})
			return sash(limit, redisstore.WithPrefix("alone"))(ring, env)
		}
	}
	log := core.PerHour(min(int64(requests), core.MaxLogRequests))
	counter := core.PerHour(int64(requests)).Using(core.SlidingCounter)
	return []remote{
		{"sash counter", sash(counter)},
		{"sash log", sash(log)},
		{"redis_rate", func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
			limiter, limit := redisrate.NewLimiter(rdb), redisrate.Limit{Rate: requests, Burst: requests, Period: time.Hour}
			return func(i int) error {
				result, err := limiter.Allow(ctx, names[i%remoteClients], limit)
				if err == nil && result.Allowed == 0 {
					err = errRefused
				}
				return err
			}, nil
		}},
		{"ulule", func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
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
		}},
		{"throttled", func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
			store, err := throttledredis.NewCtx(rdb, "throttled:")
			if err != nil {
				return nil, err
			}
			limiter, err := throttled.NewGCRARateLimiterCtx(store, load{requests: requests}.gcra())
			if err != nil {
				return nil, err
			}
			limiter.SetMaxCASAttemptsLimit(1000) // with few keys its attempts collide
			return func(i int) error {
				limited, _, err := limiter.RateLimitCtx(ctx, names[i%remoteClients], 1)
				if err == nil && limited {
					err = errRefused
				}
				return err
			}, nil
		}},
		{aloneCounter, alone(counter)},
		{aloneLog, alone(log)},
		{plainCounter, plain(counter)},
		{plainLog, plain(log)},
		{returnOne, func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
			one := redis.NewScript("return 1")
			return func(i int) error { return one.Run(ctx, rdb, []string{names[i%remoteClients]}).Err() }, nil
		}},
	}
}

const (
	aloneCounter = "sash counter, not batched"
	aloneLog     = "sash log, not batched"
)

// Scripts as go-redis sends them, without a library: those of sash, and one that
// does nothing.
const (
	returnOne    = "return 1, plain EVALSHA"
	plainCounter = "counter script, plain EVALSHA"
	plainLog     = "log script, plain EVALSHA"
)

// contestant decides with so many goroutines at once.
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
		var next atomic.Int64
		work := func(n int) error {
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
		return work, work(2 * remoteClients) // every key is there
	}}
}

// Names of the races.
const (
	crowd     = "Redis, 64 goroutines"
	lone      = "Redis, a lone caller: "
	onCluster = "Redis Cluster of 3 masters, 64 goroutines"
	flood     = "Redis, a flood on a client that is refused"
)

func throughputRaces() []Race {
	goals := map[string]map[string]float64{
		crowd:     {"sash counter": 4.5, "sash log": 3.5},
		onCluster: {"sash counter": 2.2, "sash log": 2.2},
	}
	var races []Race
	for _, name := range []string{crowd, onCluster} {
		r := Race{Name: name, Baseline: []string{"redis_rate"}}
		for _, remote := range remotes(unlimited) {
			switch remote.name {
			case aloneCounter, aloneLog, plainCounter, plainLog:
				continue // which are for the lone caller
			}
			goal := Goal{}
			if ratio, ok := goals[name][remote.name]; ok {
				goal.Ratio = new(ratio)
			}
			r.Contestants = append(r.Contestants, remote.contestant(64, goal))
		}
		races = append(races, r)
	}
	for _, names := range [][3]string{{"sash counter", aloneCounter, plainCounter}, {"sash log", aloneLog, plainLog}} {
		r := Race{Name: lone + names[0], Baseline: []string{names[1]}}
		for _, remote := range remotes(unlimited) {
			switch remote.name {
			case names[0]:
				r.Contestants = append(r.Contestants, remote.contestant(1, Goal{Ratio: new(1 / 1.05)}))
			case names[1], names[2], "redis_rate":
				r.Contestants = append(r.Contestants, remote.contestant(1, Goal{}))
			}
		}
		races = append(races, r)
	}
	return append(races, floodRace())
}

// floodRace compares refusals that Redis is not asked for with those of a store
// in memory.
func floodRace() Race {
	const inMemory = "sash log, in memory"
	contestant := func(name string, algorithm core.Algorithm, goal Goal) Contestant {
		return Contestant{Name: name, Goal: goal, Open: func(env Env) (Work, error) {
			ctx := context.Background()
			rdb := redis.NewClient(&redis.Options{Addr: env.Redis})
			var store core.Store = redisstore.New(rdb)
			if name == inMemory {
				store = memstore.New()
			}
			l, err := core.New(core.Config{
				Name: name, Store: store, Limits: []core.Limit{core.PerHour(1).Using(algorithm)},
				OnStoreError: core.FailClosed, Timeout: time.Second,
			})
			if err != nil {
				return nil, err
			}
			server, err := dial(env.Redis)
			if err != nil {
				return nil, err
			}
			l.Allow(ctx, "ip:198.51.100.7")
			return func(n int) error {
				start := time.Now()
				before, _, err := server.scriptStats()
				if err != nil {
					return err
				}
				for range n {
					if d := l.Allow(ctx, "ip:198.51.100.7"); d.Allowed || d.Err != nil {
						return fmt.Errorf("not refused: %+v", d)
					}
				}
				after, _, err := server.scriptStats()
				// One a second keeps an eye on the count.
				if most := int64(time.Since(start)/time.Second) + 1; err == nil && after-before > most {
					err = fmt.Errorf("%d refusals asked Redis %d times, want %d at most", n, after-before, most)
				}
				return err
			}, nil
		}}
	}
	return Race{Name: flood, Baseline: []string{inMemory}, Contestants: []Contestant{
		contestant("sash counter", core.SlidingCounter, Goal{Ratio: new(1 / 1.05), Allocs: new(0.0)}),
		contestant("sash log", core.SlidingLog, Goal{Ratio: new(1 / 1.05), Allocs: new(0.0)}),
		contestant(inMemory, core.SlidingLog, Goal{}),
	}}
}

func runThroughput(c Config) ([]Row, error) {
	c.Slice *= 2 // 64 goroutines take a while to start and to end
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

// withRedis runs f with the servers that a race needs, empty ones.
func withRedis(r Race, f func(Env) error) error {
	if r.Name == onCluster {
		return withServers(threeMasters, func(c *redistest.Cluster) error { return f(Env{Cluster: c.Addrs()}) })
	}
	return withServers(single, func(s *redistest.Server) error { return f(Env{Redis: s.Addr()}) })
}

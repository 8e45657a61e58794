package bench

import (
	"context"
	"time"

	redisrate "github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
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
		limiter, err := waiting(time.Second, "bench", redisstore.New(rdb, options...), limit)
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

// orRefused returns err, or errRefused if there is no error and the request was not
// allowed.
func orRefused(err error, allowed bool) error {
	if err == nil && !allowed {
		return errRefused
	}
	return err
}

// openRedisRate returns the opener of redis_rate.
func openRedisRate(names []string, requests int) opener {
	return func(rdb redis.UniversalClient, _ Env) (func(int) error, error) {
		ctx := context.Background()
		limiter := redisrate.NewLimiter(rdb)
		limit := redisrate.Limit{Rate: requests, Burst: requests, Period: time.Hour}
		return func(i int) error {
			result, err := limiter.Allow(ctx, names[i%remoteClients], limit)
			return orRefused(err, err == nil && result.Allowed > 0)
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
			return orRefused(err, !result.Reached)
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
			return orRefused(err, !limited)
		}, nil
	}
}

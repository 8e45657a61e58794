package bench

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/httprate"
	redisrate "github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/nethttp"
)

// website is a hello-world server with or without a limiter. Each website limits by
// the header field of a client's name.
type website struct {
	name string

	// field is the field of responses that says how many requests remain. It is empty
	// without a limiter.
	field  string
	counts counts

	// command is the name of the command that Redis runs for each request that is counted, in a script. It is
	// empty if Redis is not asked.
	command string

	wrap wrapper
}

// wrapper puts a limiter before a handler, which counts in Redis if it is one that does.
type wrapper func(load, *redis.Client, http.Handler) (http.Handler, error)

// counts says which requests the field of a website tells about.
type counts int

const (
	nothing counts = iota // there is no such field, or what remains grows with time
	exactly               // a request more, one less remains
	ahead                 // at least: a lease counts many requests at once, before they come
)

// Names of the websites that others are compared with.
const (
	bareSite      = "no limiter"
	ululeSite     = "ulule on Redis"
	redisRateSite = redisRate
)

// websites returns the servers that are compared.
func websites() []website {
	const classic = "X-RateLimit-Remaining"
	lease := redisstore.WithLease(1000, time.Second)
	return []website{
		{bareSite, "", nothing, "", limitNothing},
		{"sash in memory", classic, exactly, "", limitBySash},
		{"httprate in memory", classic, exactly, "", limitByHTTPRate},
		{"sash on Redis", classic, exactly, "rpush", limitBySashOnRedis("log", core.SlidingLog)},
		{"sash on Redis, counter", classic, exactly, "setrange", limitBySashOnRedis("counter", core.SlidingCounter)},
		{"sash on Redis, leased", classic, ahead, "rpush", limitBySashOnRedis("leased", core.SlidingLog, lease)},
		{ululeSite, classic, exactly, "incrby", limitByUlule},
		{redisRateSite, "RateLimit-Remaining", nothing, "set", limitByRedisRate},
	}
}

// clientField is the header field of requests that names the client.
const clientField = "X-Client"

// clientName returns the key of all limiters.
func clientName(r *http.Request) string { return r.Header.Get(clientField) }

// clientKey returns clientName, for libraries whose key functions may fail.
func clientKey(r *http.Request) (string, error) { return clientName(r), nil }

// greeting is the body of a response that is not refused.
const greeting = "Hello, World!\n"

// hello is the handler behind all limiters.
func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, greeting) }

func limitNothing(_ load, _ *redis.Client, next http.Handler) (http.Handler, error) { return next, nil }

func limitBySash(l load, _ *redis.Client, next http.Handler) (http.Handler, error) {
	limiter, err := l.inMemory(core.SlidingLog)
	if err != nil {
		return nil, err
	}
	return nethttp.Middleware(limiter, clientKey)(next), nil
}

// limitBySashOnRedis returns the wrap of sash with a store on Redis. The name keeps the keys of several websites apart.
func limitBySashOnRedis(name string, a core.Algorithm, options ...redisstore.Option) wrapper {
	return func(l load, rdb *redis.Client, next http.Handler) (http.Handler, error) {
		limiter, err := waiting(name, redisstore.New(rdb, options...), l.limit(a))
		if err != nil {
			return nil, err
		}
		return nethttp.Middleware(limiter, clientKey)(next), nil
	}
}

func limitByHTTPRate(l load, _ *redis.Client, next http.Handler) (http.Handler, error) {
	return httprate.LimitBy(l.requests, l.window, clientKey)(next), nil
}

func limitByUlule(l load, rdb *redis.Client, next http.Handler) (http.Handler, error) {
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		return nil, err
	}
	limiter := ulule.New(store, ulule.Rate{Period: l.window, Limit: int64(l.requests)})
	// By default an error panics, as it does for each request under way when wrk ends.
	fail := func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	guard := ululehttp.NewMiddleware(limiter, ululehttp.WithKeyGetter(clientName), ululehttp.WithErrorHandler(fail))
	return guard.Handler(next), nil
}

// limitByRedisRate is the middleware that a user of redis_rate writes, which has none.
func limitByRedisRate(l load, rdb *redis.Client, next http.Handler) (http.Handler, error) {
	limiter := redisrate.NewLimiter(rdb)
	limit := redisrate.PerHour(l.requests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := limiter.Allow(r.Context(), clientName(r), limit)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("RateLimit-Limit", strconv.Itoa(l.requests))
		w.Header().Set("RateLimit-Remaining", strconv.Itoa(result.Remaining))
		w.Header().Set("RateLimit-Reset", strconv.Itoa(int(result.ResetAfter.Seconds())))
		if result.Allowed == 0 {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

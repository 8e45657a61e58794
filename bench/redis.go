package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	"github.com/sashlimit/sash/core/redisstore"
)

// remote is a limiter that decides through a client of Redis, of which only the address is set. decide returns
// errRefused if the request is refused.
type remote struct {
	name string
	open func(redis.UniversalClient, load) (decide func(client string) error, err error)

	// beside has the commands that the limiter sends beside scripts, and which share of their calls no script makes.
	beside map[string]float64
}

const redisRate = "redis_rate" // the baseline

// remotes returns the limiters that are compared.
func remotes() []remote {
	return []remote{
		{"sash counter", openSash(core.SlidingCounter), nil},
		{"sash log", openSash(core.SlidingLog), nil},
		{"sash coarse log", openSash(core.CoarseLog), nil},
		{"sash bucket", openSash(core.Bucket), nil},
		{redisRate, func(rdb redis.UniversalClient, l load) (func(string) error, error) {
			limiter := redisrate.NewLimiter(rdb)
			limit := redisrate.Limit{Rate: l.requests, Burst: l.requests, Period: l.window}
			return func(client string) error {
				result, err := limiter.Allow(context.Background(), client, limit)
				return orRefused(err, err == nil && result.Allowed > 0)
			}, nil
		}, nil},
		{"ulule", func(rdb redis.UniversalClient, l load) (func(string) error, error) {
			store, err := ululeredis.NewStore(rdb)
			limiter := ulule.New(store, ulule.Rate{Period: l.window, Limit: int64(l.requests)})
			return func(client string) error {
				result, err := limiter.Get(context.Background(), client)
				return orRefused(err, !result.Reached)
			}, err
		}, nil},
		{"throttled", func(rdb redis.UniversalClient, l load) (func(string) error, error) {
			store, err := throttledredis.NewCtx(rdb, "throttled:")
			if err != nil {
				return nil, err
			}
			limiter, err := throttled.NewGCRARateLimiterCtx(store, l.gcra())
			if err != nil {
				return nil, err
			}
			limiter.SetMaxCASAttemptsLimit(1000) // with few keys, its attempts collide
			return func(client string) error {
				limited, _, err := limiter.RateLimitCtx(context.Background(), client, 1)
				return orRefused(err, !limited)
			}, nil
		}, map[string]float64{"time": 1, "get": 0.5}},
	}
}

// openSash returns the opener of sash with an algorithm.
func openSash(a core.Algorithm) func(redis.UniversalClient, load) (func(string) error, error) {
	return func(rdb redis.UniversalClient, l load) (func(string) error, error) {
		limiter, err := waiting("bench", redisstore.New(rdb), l.limit(a))
		return func(client string) error {
			d := limiter.Allow(context.Background(), client)
			return orRefused(d.Err, d.Allowed)
		}, err
	}
}

// waiting returns a limiter of sash that waits a second for its store instead of 100 ms, since a stall of a busy
// machine is no result.
func waiting(name string, store core.Store, limit core.Limit) (*core.Limiter, error) {
	return core.New(core.Config{
		Name: name, Store: store, Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Timeout: time.Second,
		Quiet: []string{"large-log"},
	})
}

// orRefused returns err, or errRefused if there is no error and the request was not allowed.
func orRefused(err error, allowed bool) error {
	if err == nil && !allowed {
		return errRefused
	}
	return err
}

// redisRaces compare the limiters through a client of Redis. Where one expires for each request there are few clients,
// each of which comes again within the window, over and over.
func redisRaces() []race {
	hour := perHour(unlimited)
	lone := redisRace("Redis, 1 goroutine", 1, 1000, hour, Goal{})
	expiring := redisRace("Redis, 1 goroutine, one expires for each request", 1, 16,
		load{requests: core.MaxLogRequests, window: 10 * time.Millisecond}, Goal{})
	crowd := redisRace("Redis, 64 goroutines", 64, 1000, hour, Goal{Ratio: new(3.0)})
	cluster := redisRace("Redis Cluster of 3 masters, 64 goroutines", 64, 1000, hour, Goal{Ratio: new(1.5)})
	cluster.servers = threeMasters
	return []race{lone, expiring, crowd, cluster}
}

// redisRace compares decisions about so many clients in a number of goroutines at once. goal is that of sash.
func redisRace(name string, goroutines, clients int, l load, goal Goal) race {
	r := race{name: name, servers: single}
	for _, remote := range remotes() {
		r.add(remote.name, strings.HasPrefix(remote.name, "sash"), goal, remote.contest(goroutines, clients, l))
	}
	r.baseline = []string{redisRate}
	return r
}

// contest returns the opener of the work of some goroutines.
func (r remote) contest(goroutines, clients int, l load) func(Env) (work, error) {
	return func(env Env) (work, error) {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: env.Redis})
		a := &account{beside: r.beside}
		for _, addr := range env.Redis {
			a.servers = append(a.servers, redis.NewClient(&redis.Options{Addr: addr}))
		}
		decide, err := r.open(rdb, l)
		if err != nil {
			return work{}, err
		}
		names := make([]string, clients)
		for i := range names {
			names[i] = client(i)
		}
		w := work{inGoroutines(goroutines, func(i int) error { return decide(names[i%clients]) }, a), a.facts}
		return w, w.do(2 * clients) // creates every key
	}
}

// client returns the name of client i.
func client(i int) string { return "ip:198.51." + strconv.Itoa(i/250) + "." + strconv.Itoa(i%250) }

// inGoroutines returns the work of calling decide in a number of goroutines at once, with the next number each time. A
// goroutine ends with its first error. The first goroutine notes how long its calls take.
func inGoroutines(goroutines int, decide func(i int) error, a *account) func(n int) error {
	var next atomic.Int64
	return func(n int) error {
		end := next.Load() + int64(n)
		errs := make([]error, goroutines)
		var group sync.WaitGroup
		for g := range errs {
			group.Go(func() {
				for i := next.Add(1); i <= end && errs[g] == nil; i = next.Add(1) {
					start := time.Now()
					errs[g] = decide(int(i))
					if g == 0 {
						a.took = append(a.took, float64(time.Since(start))/float64(time.Microsecond))
					}
				}
			})
		}
		group.Wait()
		next.Store(end)
		a.decisions += n
		return errors.Join(errs...)
	}
}

// account keeps what decisions cost besides the time of their contestant.
type account struct {
	took      []float64 // by the decisions of one goroutine, in microseconds
	decisions int
	servers   []*redis.Client
	beside    map[string]float64 // see remote
	before    float64            // what the servers have worked so far
}

// facts returns what decisions have cost since the last call.
func (a *account) facts() (f facts, err error) {
	if slices.Sort(a.took); len(a.took) > 0 {
		f.P99 = a.took[len(a.took)*99/100]
	}
	stats := map[string]calls{}
	for _, server := range a.servers {
		err = errors.Join(err, commandStats(server, stats))
	}
	now := stats["eval"].micros + stats["evalsha"].micros
	for name, share := range a.beside {
		now += share * stats[name].micros
	}
	f.Server = (now - a.before) / float64(max(a.decisions, 1))
	a.took, a.decisions, a.before = a.took[:0], 0, now
	return f, err
}

// calls are how often servers have run a command, and for how many microseconds.
type calls struct{ calls, micros float64 }

// commandStats adds what a server says of the commands that it has run, by their names.
func commandStats(server *redis.Client, all map[string]calls) error {
	text, err := server.Info(context.Background(), "commandstats").Result()
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		name, numbers, _ := strings.Cut(rest, ":")
		var more calls
		if _, bad := fmt.Sscanf(numbers, "calls=%g,usec=%g,", &more.calls, &more.micros); ok {
			err = errors.Join(err, bad)
			all[name] = calls{all[name].calls + more.calls, all[name].micros + more.micros}
		}
	}
	return err
}

// runTakes measures what a client takes in Redis, and what it is admitted at most.
func runTakes(c Config) (rows []Row, err error) {
	add := func(what, unit string, measure func(remote, *redis.Client) (int, error)) {
		c.progress("%s", what)
		for _, r := range remotes() {
			err = errors.Join(err, withServers(single, func(env Env) error {
				n, err := measure(r, redis.NewClient(&redis.Options{Addr: env.Redis[0]}))
				rows = append(rows, Row{What: what, Name: r.name, Unit: unit, Values: []float64{float64(n)}})
				return err
			}))
		}
	}
	add("Redis, a client after 100 requests", "B", remote.bytes)
	add("Redis, admitted in the fullest window, limit 10", "requests", func(r remote, rdb *redis.Client) (int, error) {
		most := 0
		for i := range 3 { // a busy machine may see less than there is
			n, err := r.fullest(rdb, i)
			if err != nil {
				return 0, err
			}
			most = max(most, n)
		}
		return most, nil
	})
	return rows, err
}

// bytes returns what the keys of a client take that has sent 100 requests.
func (r remote) bytes(rdb *redis.Client) (bytes int, err error) {
	ctx := context.Background()
	decide, err := r.open(rdb, perHour(1000))
	if err != nil {
		return 0, err
	}
	for range 100 {
		if err := decide(client(1)); err != nil {
			return 0, err
		}
	}
	keys, err := rdb.Keys(ctx, "*").Result()
	for _, key := range keys {
		n, bad := rdb.MemoryUsage(ctx, key, 0).Result()
		bytes, err = bytes+int(n), errors.Join(err, bad)
	}
	return bytes, err
}

// fullest returns the most requests that a limiter with a limit of 10 admits of one attack or the other, in windows of
// 200 ms. Each attack has a client of its own, of a number.
func (r remote) fullest(rdb *redis.Client, number int) (int, error) {
	const window = 200 * time.Millisecond
	decide, err := r.open(rdb, load{requests: smallLimit, window: window})
	if err != nil {
		return 0, err
	}
	most := 0
	for _, n := range attacks {
		time.Sleep(time.Until(time.Now().Truncate(window).Add(window))) // a window of the clock begins
		most = max(most, attack(n, window, time.Millisecond, func() bool {
			bad := decide(fmt.Sprint(number, " ", n))
			if !errors.Is(bad, errRefused) {
				err = errors.Join(err, bad)
			}
			return bad == nil
		}))
	}
	return most, err
}

// smallLimit is the limit whose fullest window is measured.
const smallLimit = 10

// attacks are the times of requests that make a limiter admit as much as it can: the first one opens a fixed window, a
// quiet time fills a token bucket, and then requests come from just before a boundary until just before the next, in so
// many windows after the first.
var attacks = []int{1, 2}

// attempt is one request: the decision was made at some time from begin to end.
type attempt struct{ begin, end time.Time }

// worstWindow returns the most attempts that lie within less than a window, wherever it starts. admitted is in the
// order of time.
func worstWindow(admitted []attempt, window time.Duration) int {
	worst, first := 0, 0
	for i, last := range admitted {
		for last.end.Sub(admitted[first].begin) >= window {
			first++
		}
		worst = max(worst, i-first+1)
	}
	return worst
}

// attack sends one request, waits until shortly before the end of window n, and sends requests, a step apart, until
// shortly before the end of the next. It returns the worst window.
func attack(n int, window, step time.Duration, decide func() (admitted bool)) int {
	start := time.Now()
	var admitted []attempt
	once := func() {
		begin := time.Now()
		if decide() {
			admitted = append(admitted, attempt{begin, time.Now()})
		}
	}
	once()
	early := 10 * step
	for at := time.Duration(n)*window - early; at < time.Duration(n+1)*window-early; at += step {
		time.Sleep(time.Until(start.Add(at)))
		once()
	}
	return worstWindow(admitted, window)
}

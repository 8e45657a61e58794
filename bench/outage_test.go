package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	redisrate "github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// outage is a middleware that counts in Redis, as it is by default.
type outage struct {
	name string
	wrap func(redis.UniversalClient, http.Handler) (http.Handler, error)
}

// outages returns the middlewares that are tried while Redis is gone.
func outages() []outage {
	return []outage{
		{"sash log", wrapPolicy(core.FailOpen)},
		{"sash log", wrapPolicy(core.FailClosed)},
		{"sash log", wrapPolicy(core.Fallback(memstore.New(), 1))},
		{"ulule", wrapUlule},
		{"throttled", wrapThrottled},
	}
}

// wrapUlule puts ulule's middleware before a handler.
func wrapUlule(rdb redis.UniversalClient, next http.Handler) (http.Handler, error) {
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		return nil, err
	}
	limiter := ulule.New(store, ulule.Rate{Period: time.Hour, Limit: 1})
	return ululehttp.NewMiddleware(limiter).Handler(next), nil
}

// wrapThrottled puts throttled's middleware before a handler.
func wrapThrottled(rdb redis.UniversalClient, next http.Handler) (http.Handler, error) {
	store, err := throttledredis.NewCtx(rdb, "")
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, load{requests: 1}.gcra())
	if err != nil {
		return nil, err
	}
	guard := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return guard.RateLimit(next), nil
}

// wrapPolicy puts a limiter of sash before a handler.
func wrapPolicy(policy core.Policy) func(redis.UniversalClient, http.Handler) (http.Handler, error) {
	return func(rdb redis.UniversalClient, next http.Handler) (http.Handler, error) {
		limiter, err := core.New(core.Config{
			Name: "bench", Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(1)},
			OnStoreError: policy, Observer: core.Silent,
		})
		if err != nil {
			return nil, err
		}
		return sashHTTP(limiter, next), nil
	}
}

// answerOf returns the status that a handler answers with, or "panic".
func answerOf(h http.Handler) (answer string) {
	defer func() {
		if recover() != nil {
			answer = "panic"
		}
	}()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = address(1)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return fmt.Sprint(w.Code)
}

// TestRedisGone: what each library makes of two requests of one client while Redis refuses
// connections, under a limit of 1.
func TestRedisGone(t *testing.T) {
	server := redistest.Start(t)
	// One attempt, so that the test need not wait for those of the client.
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { rdb.Close() })
	tried := outages()
	var handlers []http.Handler
	for _, o := range tried {
		h, err := o.wrap(rdb, new(served))
		if err != nil {
			t.Fatal(err)
		}
		handlers = append(handlers, h)
	}
	server.Kill()
	answers := map[string]string{}
	for i, o := range tried {
		answers[o.name] += answerOf(handlers[i]) + ", " + answerOf(handlers[i]) + "; "
	}
	for name, want := range map[string]string{
		"sash log":  "200, 200; 503, 503; 200, 429; ", // open, closed, fallback
		"ulule":     "panic, panic; ",
		"throttled": "500, 500; ",
	} {
		if answers[name] != want {
			t.Errorf("%s: %q, want %q", name, answers[name], want)
		}
	}
	result, err := redisrate.NewLimiter(rdb).Allow(t.Context(), "a", redisrate.PerHour(1))
	if result != nil || err == nil {
		t.Errorf("redis_rate: %v, %v, want an error alone", result, err)
	}
	// A program that starts while Redis is down:
	if _, err := ululeredis.NewStore(rdb); err == nil {
		t.Error("ulule makes a store without Redis")
	}
	if _, err := throttledredis.NewCtx(rdb, ""); err != nil {
		t.Errorf("throttled: %v, want a store", err)
	}
	if h, err := wrapPolicy(core.FailClosed)(rdb, new(served)); err != nil || answerOf(h) != "503" {
		t.Errorf("sash: %v, want a limiter", err)
	}
}

// TestClientDefaults: what docs/comparison.md reckons a request waits for, if its decision
// is sent again after each timeout.
func TestClientDefaults(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	o := rdb.Options()
	if got := fmt.Sprint(o.MaxRetries+1, " times ", o.ReadTimeout); got != "4 times 5s" {
		t.Errorf("go-redis sends a command %s, want 4 times 5s", got)
	}
}

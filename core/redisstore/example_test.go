package redisstore_test

import (
	"context"
	"expvar"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// Two replicas of a service count together: the same name and prefix on the same Redis.
func ExampleNew() {
	server := core.Must(miniredis.Run()) // stands for a Redis
	defer server.Close()
	replica := func() *core.Limiter {
		store := redisstore.New(redis.NewClient(&redis.Options{Addr: server.Addr()}), redisstore.WithPrefix("staging"))
		limiter := core.Must(core.New(core.Config{
			Name:    "api",
			Store:   store,
			Limits:  []core.Limit{core.PerHour(3)},
			Timeout: time.Minute, // long, as a machine that tests may be busy
		}))
		if err := store.Check(context.Background()); err != nil {
			slog.Warn("Redis is not fit for counting", "error", err) // and go on
		}
		return limiter
	}
	a, b := replica(), replica()
	for _, l := range []*core.Limiter{a, b, a, b} {
		d := l.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// An operator hears at start-up what is wrong with Redis; the server starts
// all the same.
func ExampleStore_Check() {
	store := core.Must(redisstore.Open("redis://127.0.0.1:1/0")) // no server is there
	defer store.Close()
	if err := store.Check(context.Background()); err != nil {
		fmt.Println("Redis is not fit for counting yet")
	}
	// Output:
	// Redis is not fit for counting yet
}

// The numbers of a store stand at /debug/vars, of a program that serves
// http.DefaultServeMux.
func ExampleStore_Stats() {
	store := core.Must(redisstore.Open("redis://127.0.0.1:6379/0"))
	defer store.Close()
	if err := store.Check(context.Background()); err != nil {
		slog.Warn("Redis is not fit for counting", "error", err)
	}
	expvar.Publish("sash", expvar.Func(func() any { return store.Stats() }))
	for _, b := range store.Stats().Breakers {
		fmt.Println(b.Server, "is", b.State)
	}
	// Output:
	// 127.0.0.1:6379 is closed
}

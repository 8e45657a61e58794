package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

func ExampleNew() {
	limiter, err := core.New(core.Config{
		Name:   "api",
		Store:  memstore.New(),
		Limits: []core.Limit{core.PerSecond(10), core.PerHour(1000)}, // enforced together
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, limit := range limiter.Limits() {
		fmt.Println(limit)
	}

	// What cannot work is an error when the program starts, with what to do.
	_, err = limiter.Rule("login")
	fmt.Println(err)
	// Output:
	// 10/1s
	// 1000/1h
	// sash: limiter "api", rule "login": no limits: give at least one, such as core.PerMinute(100)
}

func ExampleParseLimit() {
	fmt.Println(core.ParseLimit("5/15m"))
	_, err := core.ParseLimit("100/month")
	fmt.Println(strings.HasPrefix(err.Error(), `sash: the limit "100/month": "month" is not a window`))

	var config struct{ Limits []core.Limit }
	err = json.Unmarshal([]byte(`{"Limits": ["10/1s", "1000/24h counter named daily"]}`), &config)
	fmt.Println(config.Limits, err)
	// Output:
	// 5/15m <nil>
	// true
	// [10/1s 1000/24h counter named daily] <nil>
}

func ExampleLimiter_Allow() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)}}))
	ctx := context.Background()
	for range 3 {
		d := limiter.Allow(ctx, "user:42")
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Minute))
	}
	fmt.Println("another client:", limiter.Allow(ctx, "user:43").Allowed)
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 1h0m0s
	// another client: true
}

func ExampleLimiter_Rule() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)}}))
	// Same store, same clients, counts of its own.
	login := core.Must(api.Rule("login", core.Per(2, 15*time.Minute)))

	ctx := context.Background()
	for range 3 {
		fmt.Println("login:", login.Allow(ctx, "ip:198.51.100.7").Allowed)
	}
	fmt.Println("the rest:", api.Allow(ctx, "ip:198.51.100.7").Remaining, "left")
	// Output:
	// login: true
	// login: true
	// login: false
	// the rest: 99 left
}

func ExampleLimiter_WithPolicy() {
	api := core.Must(core.New(core.Config{
		Store:        storetest.Fixed(core.Decision{Err: errors.New("connection refused")}),
		Limits:       []core.Limit{core.PerMinute(100)},
		OnStoreError: core.FailOpen, // the default: being up matters more than being limited
	}))
	login := core.Must(api.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed)

	for _, limiter := range []*core.Limiter{api, login} {
		d := limiter.Allow(context.Background(), "ip:198.51.100.7")
		fmt.Println(d.Allowed, errors.Is(d.Err, core.ErrStore))
	}
	// Output:
	// true true
	// false true
}

func ExampleLimiter_Peek() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	ctx := context.Background()

	fmt.Println(limiter.Peek(ctx, "user:42").Allowed, "and as often as you like:", limiter.Peek(ctx, "user:42").Allowed)
	limiter.Allow(ctx, "user:42")
	fmt.Println("now:", limiter.Peek(ctx, "user:42").Allowed)
	// Output:
	// true and as often as you like: true
	// now: false
}

func ExampleLimiter_AllowN() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(10)}}))
	ctx := context.Background()

	fmt.Println("a batch of 8:", limiter.AllowN(ctx, "user:42", 8).Allowed)
	fmt.Println("a batch of 3:", limiter.AllowN(ctx, "user:42", 3).Allowed) // all or nothing
	fmt.Println("what is left:", limiter.AllowN(ctx, "user:42", 0).Remaining)
	fmt.Println("11 of 10 can never pass:", limiter.AllowN(ctx, "user:42", 11).RetryAfter == core.Never)
	// Output:
	// a batch of 8: true
	// a batch of 3: false
	// what is left: 2
	// 11 of 10 can never pass: true
}

func ExampleFallback() {
	limiter := core.Must(core.New(core.Config{
		Store:  storetest.Fixed(core.Decision{Err: errors.New("connection refused")}),
		Limits: []core.Limit{core.PerMinute(100)},
		// Four replicas, each counting for itself while the store is down.
		OnStoreError: core.Fallback(memstore.New(), 4),
	}))
	d := limiter.Allow(context.Background(), "user:42")
	fmt.Printf("allowed %v, %d of %d left\n", d.Allowed, d.Remaining, d.Limit.Requests)
	fmt.Println(d.Err)
	// Output:
	// allowed true, 24 of 25 left
	// sash: the store failed: connection refused
}

func ExampleRateAndBurst() {
	fmt.Println(core.RateAndBurst(10, time.Second, 20)) // 20 at once, and then ten a second
	fmt.Println(core.RateAndBurst(1, time.Second, 200))
	// Output:
	// 20/2s bucket
	// 200/3m20s bucket
}

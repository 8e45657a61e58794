package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// A store of 64 KiB has slots for some hundred clients. A client that had to make
// room for others is still at its limit when it comes back, and every new key is
// counted.
func ExampleWithMaxBytes() {
	limiter := core.Must(core.New(core.Config{
		Store:        memstore.New(memstore.WithMaxBytes(64 << 10)),
		Limits:       []core.Limit{core.PerHour(5)},
		OnStoreError: core.FailClosed,
	}))
	ctx := context.Background()
	limiter.AllowN(ctx, "the first", 5)
	for i := range 5000 {
		limiter.Allow(ctx, fmt.Sprint("flood ", i))
	}
	fmt.Println(limiter.Allow(ctx, "the first").Allowed)
	d := limiter.Allow(ctx, "a new key")
	fmt.Println(d.Allowed, d.Err)
	// Output:
	// false
	// true <nil>
}

// A test moves the clock.
func ExampleWithClock() {
	now := time.Now()
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{core.PerHour(1)}}))
	ctx := context.Background()
	fmt.Println(limiter.Allow(ctx, "user:42").Allowed, limiter.Allow(ctx, "user:42").Allowed)
	now = now.Add(time.Hour)
	fmt.Println(limiter.Allow(ctx, "user:42").Allowed)
	// Output:
	// true false
	// true
}

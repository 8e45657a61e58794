package memstore_test

import (
	"context"
	"expvar"
	"fmt"

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

// The numbers of a store stand at /debug/vars, of a program that serves
// http.DefaultServeMux.
func ExampleStore_Stats() {
	store := memstore.New()
	expvar.Publish("sash", expvar.Func(func() any { return store.Stats() }))
	limiter := core.Must(core.New(core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerMinute(10), core.PerHour(100)},
	}))
	limiter.Allow(context.Background(), "user:42")
	stats := store.Stats()
	fmt.Println(stats.Slots, "slots,", stats.Evictions, "evictions")
	// Output:
	// 2 slots, 0 evictions
}

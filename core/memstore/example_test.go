package memstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// A store of 64 KiB is full when some hundred clients are at their limit. None
// of them is forgotten: newcomers get the policy.
func ExampleWithMaxBytes() {
	limiter := core.Must(core.New(core.Config{
		Store:        memstore.New(memstore.WithMaxBytes(64 << 10)),
		Limits:       []core.Limit{core.PerHour(1)},
		OnStoreError: core.FailClosed,
	}))
	ctx := context.Background()
	limiter.Allow(ctx, "the first")
	for i := range 2000 {
		limiter.Allow(ctx, fmt.Sprint("flood ", i))
	}
	d := limiter.Allow(ctx, "a newcomer")
	fmt.Println(d.Allowed, errors.Is(d.Err, core.ErrStoreFull))
	fmt.Println(limiter.Allow(ctx, "the first").Allowed)
	// Output:
	// false true
	// false
}

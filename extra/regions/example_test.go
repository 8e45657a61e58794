package regions_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/regions"
)

// Two regions with one limit. A store in memory stands for the Redis of a region.
func ExampleNew() {
	stores := map[string]core.Store{"eu": memstore.New(), "us": memstore.New()}
	ctx := context.Background()
	for _, local := range []string{"eu", "us", "eu"} {
		store := core.Must(regions.New(regions.Config{Local: local, Stores: stores, Strict: true}))
		api := core.Must(core.New(core.Config{
			Name: "api", Store: store, Limits: []core.Limit{core.PerHour(2)}, Timeout: time.Minute,
		}))
		fmt.Println(local, api.Allow(ctx, "user:42").Allowed)
	}
	// Output:
	// eu true
	// us true
	// eu false
}

package core_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// A limit is raised while it is in use, on the counts that there are.
func ExampleLimiter_SetLimits() {
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)},
	}))
	ctx := context.Background()
	api.AllowN(ctx, "user:42", 2)
	fmt.Println(api.Allow(ctx, "user:42").Allowed)
	if err := api.SetLimits(core.PerHour(5)); err != nil {
		fmt.Println(err)
	}
	d := api.Allow(ctx, "user:42")
	fmt.Println(d.Allowed, d.Remaining)
	err := api.SetLimits(core.PerMinute(5)) // another window
	fmt.Println(strings.NewReplacer(": give", ":\ngive", ", or", ",\nor").Replace(err.Error()))
	// Output:
	// false
	// true 2
	// sash: limiter "api": SetLimits[0] is 5/1m named 1h0m0s:
	// give the limit 2/1h of limiter "api" with other Requests,
	// or make a limiter for another window with WithLimits
}

// A job counts against the limit of its user and of its tenant, or against neither.
func ExampleTogether() {
	user := core.Must(core.New(core.Config{
		Name: "jobs", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1).Named("per user")},
	}))
	tenant := core.Must(user.Rule("tenant", core.PerHour(10).Named("per tenant")))
	ctx := context.Background()
	for range 2 {
		d, _ := core.Together(ctx,
			core.Pair{Limiter: user, Request: core.Request{Key: "user:42", Cost: 1}},
			core.Pair{Limiter: tenant, Request: core.Request{Key: "tenant:7", Cost: 1}})
		fmt.Println(d.Allowed, d.Limit.Name)
	}
	fmt.Println(tenant.AllowN(ctx, "tenant:7", 0).Remaining)
	// Output:
	// true per user
	// false per user
	// 9
}

package core_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// Limits are changed while they are in use, on the counts that there are.
func ExampleLimiter_WithLimits() {
	var api atomic.Pointer[core.Limiter]
	api.Store(core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)},
	})))
	ctx := context.Background()
	api.Load().AllowN(ctx, "user:42", 2)
	fmt.Println(api.Load().Allow(ctx, "user:42").Allowed)

	raised, err := api.Load().WithLimits(core.PerHour(5), core.PerDay(20))
	if err != nil {
		fmt.Println(err) // and the limits stay
	} else {
		api.Store(raised)
	}
	d := api.Load().Allow(ctx, "user:42")
	fmt.Println(d.Allowed, d.Remaining)
	// Output:
	// false
	// true 2
}

// A job counts against the limit of its user and of its tenant, or against neither.
func ExampleDecideAll() {
	user := core.Must(core.New(core.Config{
		Name: "jobs", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1).Named("per user")},
	}))
	tenant := core.Must(user.Rule("tenant", core.PerHour(10).Named("per tenant")))
	ctx := context.Background()
	for range 2 {
		d, _ := core.DecideAll(ctx,
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

// What is known only afterwards is counted, also beyond the limit, until an operator forgives it.
func ExampleLimiter_Charge() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1000)}}))
	ctx := context.Background()
	api.Charge(ctx, "user:42", 1200) // the tokens of an answer
	fmt.Println(api.Allow(ctx, "user:42").Allowed)
	err := api.Reset(ctx, "user:42")
	fmt.Println(err, api.Allow(ctx, "user:42").Allowed)
	// Output:
	// false
	// <nil> true
}

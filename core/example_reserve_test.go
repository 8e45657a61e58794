package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// Only failed logins count. Each counts from its beginning, so guesses at the same time do not get through.
func ExampleLimiter_Reserve() {
	login := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.Per(2, 15*time.Minute)}}))
	ctx := context.Background()
	for _, password := range []string{"right", "wrong", "wrong", "right"} {
		r := login.Reserve(ctx, core.Request{Key: "user:ada", Cost: 1})
		if !r.Decision.Allowed {
			fmt.Println(password, "is not looked at")
			continue
		}
		if password == "right" {
			if _, err := r.Return(ctx, 1); err != nil {
				fmt.Println("the login stays counted:", err)
			}
		}
		fmt.Println(password)
	}
	// Output:
	// right
	// wrong
	// wrong
	// right is not looked at
}

// An estimate is counted first, and corrected by what was used.
func ExampleReservation_Settle() {
	tokens := core.Must(core.New(core.Config{
		Name: "tokens", Store: memstore.New(), Limits: []core.Limit{core.PerDay(1000).Using(core.CoarseLog)},
	}))
	ctx := context.Background()
	for _, used := range []int64{120, 900} {
		r := tokens.Reserve(ctx, core.Request{Key: "user:ada", Cost: 500})
		if !r.Decision.Allowed {
			fmt.Println("refused")
			continue
		}
		if err := r.Settle(ctx, used); err != nil { // returns the rest, or charges the excess
			fmt.Println("counted as the estimate:", err)
		}
		if uses, err := tokens.Usage(ctx, "user:ada"); err == nil {
			fmt.Println("used:", uses[0].Used)
		}
	}
	// Output:
	// used: 120
	// used: 1020
}

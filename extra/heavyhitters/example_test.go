package heavyhitters_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/heavyhitters"
)

func ExampleClients_Top() {
	heavy := core.Must(heavyhitters.New(10))
	limiter := core.Must(core.New(core.Config{
		Name:   "api",
		Store:  memstore.New(),
		Limits: []core.Limit{core.PerHour(3)},
		// The second observer writes the lines that a limiter without an observer writes.
		Observer: core.Observers(heavy, core.LogErrors(slog.Default(), time.Minute)),
	}))
	for i := range 20 {
		limiter.Allow(context.Background(), "user:42")
		if i%2 == 0 {
			limiter.Allow(context.Background(), "user:7")
		}
	}
	for _, c := range heavy.Top("api", "", core.OutcomeRefused).Clients {
		fmt.Println(c.Key, c.AtLeast)
	}
	// Output:
	// user:42 17
	// user:7 7
}

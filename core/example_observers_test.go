package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// stdout returns the log of the program, without what differs from run to run.
func stdout() *slog.Logger {
	names := []string{slog.MessageKey, "limiter", "client", "limit", "error"}
	only := func(_ []string, a slog.Attr) slog.Attr {
		if !slices.Contains(names, a.Key) {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: only}))
}

// LogErrors keeps the log that a limiter without an observer has.
func ExampleObservers() {
	count := core.ObserverFunc(func(_ context.Context, e core.Event) { fmt.Println(e.Key, e.Decision.Allowed) })
	limiter := core.Must(core.New(core.Config{
		Name: "api", Limits: []core.Limit{core.PerMinute(100)},
		Store:    storetest.Fixed(core.Decision{Err: errors.New("connection refused")}),
		Observer: core.Observers(count, core.LogErrors(stdout(), time.Minute)),
	}))
	limiter.Allow(context.Background(), "user:42")
	// Output:
	// user:42 true
	// msg="sash: the store fails: requests are served, uncounted" limiter=api error="connection refused"
}

// A client's first refusal is logged at once, and the later ones together, once a minute.
func ExampleLogRefusals() {
	limiter := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)},
		Observer: core.Observers(core.LogErrors(stdout(), time.Minute), core.LogRefusals(stdout(), time.Minute)),
	}))
	for range 3 {
		limiter.Allow(context.Background(), "user:ada")
	}
	// Output: msg="sash: a client was refused" limiter=api client=user:ada limit=1/1h
}

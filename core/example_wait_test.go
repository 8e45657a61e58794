package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// A worker that sends no faster than its provider allows. With a redisstore all workers
// of all processes share the limit.
func ExampleLimiter_Wait() {
	limiter := core.Must(core.New(core.Config{
		Name:   "mail",
		Store:  memstore.New(),
		Limits: []core.Limit{core.Per(2, 20*time.Millisecond), core.PerHour(5)},
	}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for job := 1; ; job++ {
		if d, err := limiter.Wait(ctx, "provider"); errors.Is(err, core.ErrTooLate) {
			fmt.Println("not today: the next may go in", d.RetryAfter.Round(time.Hour)) // no sleep first
			return
		} else if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("send", job)
	}
	// Output:
	// send 1
	// send 2
	// send 3
	// send 4
	// send 5
	// not today: the next may go in 1h0m0s
}

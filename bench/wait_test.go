package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// flow is what some processes send in ten seconds, at 10 a second with bursts of 20: how many at once, and in all to
// the next lower five.
func flow(t *testing.T, processes int, wait func(process int) func(context.Context) error) (row string) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithDeadline(t.Context(), start.Add(10*time.Second-time.Nanosecond))
		defer cancel()
		var mu sync.Mutex
		var sent []time.Duration
		var group sync.WaitGroup
		for i := range processes {
			next := wait(i)
			group.Go(func() {
				for next(ctx) == nil {
					mu.Lock()
					sent = append(sent, time.Since(start))
					mu.Unlock()
				}
			})
		}
		group.Wait()
		burst := 0
		for burst < len(sent) && sent[burst] < 50*time.Millisecond {
			burst++
		}
		shortest, longest := time.Hour, time.Duration(0)
		for i := len(sent) / 2; i+1 < len(sent); i++ {
			gap := sent[i+1] - sent[i]
			shortest, longest = min(shortest, gap), max(longest, gap)
		}
		ms := time.Millisecond
		if shortest < 90*ms && processes == 1 || longest > 120*ms {
			t.Errorf("%d processes: the gaps are from %v to %v", processes, shortest, longest)
		}
		row = fmt.Sprintf("%d | %d", burst, len(sent)/5*5)
	})
	return row
}

// TestWaitIsEven: Wait by a bucket is the flow of x/time/rate's in one process, and the same over several.
func TestWaitIsEven(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, processes := range []int{1, 4} {
		var store *memstore.Store
		bySash := func(i int) func(context.Context) error {
			if i == 0 {
				store = memstore.New() // of all processes
			}
			l := core.Must(core.New(core.Config{
				Store: store, Limits: []core.Limit{core.RateAndBurst(10, time.Second, 20)},
			}))
			return func(ctx context.Context) error { _, err := l.Wait(ctx, "provider"); return err }
		}
		byRate := func(int) func(context.Context) error { return rate.NewLimiter(10, 20).Wait }
		waits := map[string]func(int) func(context.Context) error{"sash bucket": bySash, "x/time/rate": byRate}
		for name, wait := range waits {
			row := fmt.Sprintf("| %s | %d | %s |\n", name, processes, flow(t, processes, wait))
			if !strings.Contains(string(page), row) {
				t.Errorf("README.md lacks %s", row)
			}
		}
	}
}

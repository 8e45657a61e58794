package redisstore_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // go-redis logs every failed dial; some tests fail thousands
	os.Exit(m.Run())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// TestExactAcrossStores checks every window of keys that eight stores hammer. They share nothing but Redis, as eight
// processes do: no store has a client, or what it remembers, from another.
func TestExactAcrossStores(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, limits := range map[string][]core.Limit{
		"one limit":                     {core.Per(50, 100*time.Millisecond)},
		"two limits that bind by turns": {core.Per(40, 50*time.Millisecond), core.Per(100, 400*time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var outcomes []storetest.Outcome
			var mu sync.Mutex
			var group sync.WaitGroup
			for range 8 {
				l := limiter(t, core.Config{
					Name: name, Store: redisstore.New(server.Client(t)), Limits: limits, Timeout: patient,
				})
				group.Go(func() {
					own := hammer(t, l)
					mu.Lock()
					defer mu.Unlock()
					outcomes = append(outcomes, own...)
				})
			}
			group.Wait()
			if err := storetest.CheckLogs(outcomes, limits...); err != nil {
				t.Error(err)
			}
		})
	}
}

// hammer decides as fast as it can for some windows. It returns what Redis has decided, and one in 16 of the refusals
// that the store remembers, which are most.
func hammer(t *testing.T, l *core.Limiter) (outcomes []storetest.Outcome) {
	remembered, admitted := 0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) || admitted < 10; {
		cost := 1 + max(0, rand.Int64N(50)-45)
		d := l.AllowN(ctx, "k", cost)
		if d.Err != nil {
			t.Error(d.Err)
			break
		}
		if d.Allowed {
			admitted++
		}
		if d.Source == core.SourceRemembered {
			if remembered++; remembered%16 != 0 {
				continue
			}
		}
		outcomes = append(outcomes, storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: cost})
	}
	return outcomes
}

package redisstore_test

import (
	"context"
	"encoding/gob"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// The test binary is also the process that hammers: TestMain runs hammer
// instead of the tests when it is told where Redis is.
const hammerAt = "SASH_TEST_HAMMER_AT"

func TestMain(m *testing.M) {
	if addr := os.Getenv(hammerAt); addr != "" {
		if err := hammer(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redis.SetLogger(quiet{}) // go-redis logs every failed dial; some tests fail thousands
	os.Exit(m.Run())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const (
	processes  = 8
	hammerTime = 3 * time.Second
	enough     = 100 // outcomes of each goroutine, however long they take
)

// hammered are the keys and what they are limited to: a single log, and two
// that bind by turns.
var hammered = map[string][]core.Limit{
	"one limit":  {core.Per(50, 100*time.Millisecond)},
	"two limits": {core.Per(40, 50*time.Millisecond), core.Per(100, 400*time.Millisecond)},
	"long":       {core.Per(500, time.Second)},
}

// hammer decides as fast as it can and writes the outcomes to its output: all that Redis has
// decided, and one in 16 of the refusals that the process remembers, which are most.
func hammer(addr string) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	store := redisstore.New(rdb)
	outcomes := map[string][]storetest.Outcome{}
	var mu sync.Mutex
	var group sync.WaitGroup
	failures := make(chan error, 100)
	end := time.Now().Add(hammerTime)
	for key, limits := range hammered {
		l, err := core.New(core.Config{
			Name: key, Store: store, Limits: limits, OnStoreError: core.FailClosed, Timeout: patient,
		})
		if err != nil {
			return err
		}
		for range 2 {
			group.Go(func() {
				var own []storetest.Outcome
				for remembered := 0; time.Now().Before(end) || len(own) < enough; {
					cost := int64(1)
					if rand.IntN(10) == 0 {
						cost = 1 + rand.Int64N(5)
					}
					d := l.AllowN(ctx, key, cost)
					if d.Err != nil {
						failures <- d.Err
						return
					}
					if d.Source == core.SourceRemembered {
						if remembered++; remembered%16 != 0 {
							continue
						}
					}
					own = append(own, storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: cost})
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[key] = append(outcomes[key], own...)
			})
		}
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return gob.NewEncoder(os.Stdout).Encode(outcomes)
	}
}

// run starts this binary as another process, with a variable of the environment, and
// decodes into outcome what it writes.
func run(t *testing.T, variable, value string, outcome any) {
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), variable+"="+value)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	decoded := gob.NewDecoder(out).Decode(outcome)
	if err := cmd.Wait(); err != nil || decoded != nil {
		t.Errorf("process: %v, %v, %s", err, decoded, stderr.String())
	}
}

// TestExactAcrossProcesses checks every window of every key, over all processes.
func TestExactAcrossProcesses(t *testing.T) {
	addr := redistest.Start(t).Addr()
	all := map[string][]storetest.Outcome{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range processes {
		group.Go(func() {
			var outcomes map[string][]storetest.Outcome
			run(t, hammerAt, addr, &outcomes)
			mu.Lock()
			defer mu.Unlock()
			for key, o := range outcomes {
				all[key] = append(all[key], o...)
			}
		})
	}
	group.Wait()
	for key, limits := range hammered {
		admitted := int64(0)
		for _, o := range all[key] {
			if o.Allowed {
				admitted += o.Cost
			}
		}
		t.Logf("%s: %d decisions, %d units admitted", key, len(all[key]), admitted)
		if admitted == 0 {
			t.Errorf("%s: got nothing admitted", key)
		}
		if err := storetest.CheckLogs(all[key], limits...); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

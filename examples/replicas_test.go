// Package examples_test runs the example servers of all frameworks side by side, as programs
// of their own.
package examples_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/examples/internal/apptest"
	"github.com/sashlimit/sash/internal/redistest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// TestReplicas: replicas in different frameworks are one limit.
//
// A server gives Redis 100 ms and then serves uncounted, as it should: on a machine too busy for
// that, which the servers' logs tell, the test is repeated on an empty Redis.
func TestReplicas(t *testing.T) {
	redis := redistest.Start(t)
	for attempt := 1; ; attempt++ {
		if err := redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		admitted, uncounted := search(t, fmt.Sprintf("redis://%s/0", redis.Addr()))
		if admitted == 30 {
			return
		}
		if uncounted == 0 || attempt == 5 {
			t.Fatalf("got %d requests admitted, want 30: %d were not counted", admitted, uncounted)
		}
		t.Logf("attempt %d: Redis was too slow for %d decisions", attempt, uncounted)
	}
}

// search sends 20 requests to the search of each example, whose limit is 30. It returns how many were
// admitted, and how many were not counted.
func search(t *testing.T, redis string) (admitted int64, uncounted int) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var sum atomic.Int64
	var group sync.WaitGroup
	var servers []*apptest.Process
	for _, name := range apptest.Frameworks {
		servers = append(servers, apptest.Start(t, name, "-redis", redis))
	}
	for _, s := range servers {
		group.Go(func() {
			for range 20 {
				res, err := client.Get("http://" + s.Addr + "/api/search")
				if err != nil {
					t.Errorf("%s: got the error %v, want an answer", s.Name, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					sum.Add(1)
				}
			}
		})
	}
	group.Wait()
	client.CloseIdleConnections()
	for _, s := range servers {
		s.Stop(t)
		uncounted += s.Uncounted()
	}
	return sum.Load(), uncounted
}

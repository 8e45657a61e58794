// Package examples_test runs the example servers of all frameworks side by side, as programs
// of their own.
package examples_test

import (
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
func TestReplicas(t *testing.T) {
	redis := redistest.Start(t)
	client := &http.Client{Timeout: 30 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	var admitted atomic.Int64
	var group sync.WaitGroup
	for _, name := range apptest.Frameworks {
		// The servers wait for Redis for longer than a busy machine takes.
		s := apptest.Start(t, name, "-redis", redis.URL(), "-timeout", "20s")
		group.Go(func() {
			for range 20 { // the limit is 30
				res, err := client.Get("http://" + s.Addr + "/api/search")
				if err != nil {
					t.Errorf("%s: got the error %v, want an answer", s.Name, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := admitted.Load(); n != 30 {
		t.Errorf("got %d requests admitted, want 30", n)
	}
}

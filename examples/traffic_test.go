// Package examples_test runs the example servers of all frameworks side by side, as programs
// of their own.
package examples_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/examples/internal/apptest"
	"github.com/sashlimit/sash/examples/internal/decisionlog"
	"github.com/sashlimit/sash/internal/redistest"
)

var lasts = flag.Duration("for", time.Second, "how long TestTraffic goes on with each store")

func TestMain(m *testing.M) { apptest.Main(m) }

// TestTraffic: servers of all frameworks on one Redis keep one limit at full speed, and a server in memory does. Each
// decision is in the log of its server.
func TestTraffic(t *testing.T) {
	// The servers wait for Redis for longer than a busy machine takes.
	traffic(t, apptest.Frameworks, "-redis", redistest.Start(t).URL(), "-timeout", "20s")
	traffic(t, apptest.Frameworks[:1])
}

// traffic starts a server of each name, asks them as ten clients, and checks their decisions together.
func traffic(t *testing.T, names []string, flags ...string) {
	var servers []*apptest.Process
	var logs []string
	for _, name := range names {
		log := filepath.Join(t.TempDir(), name)
		logs = append(logs, log)
		servers = append(servers,
			apptest.Start(t, name, append(flags, "-trust", "127.0.0.0/8", "-decisions", log)...))
	}
	ctx, cancel := context.WithTimeout(t.Context(), *lasts)
	defer cancel()
	var group sync.WaitGroup
	for i := range 4 * len(servers) {
		group.Go(func() { load(t, ctx, "http://"+servers[i%len(servers)].Addr+"/api/data") })
	}
	group.Wait()
	for _, s := range servers {
		s.Stop(t)
	}
	clients, admitted, decided := read(t, logs), 0, 0
	limit := core.PerMinute(100)
	for key, outcomes := range clients {
		if err := storetest.CheckLogs(outcomes, limit); err != nil {
			t.Errorf("%d servers, client %s: %v", len(servers), key, err)
			continue
		}
		decided += len(outcomes)
		for _, o := range outcomes {
			if o.Allowed {
				admitted++
			}
		}
		refused := slices.IndexFunc(outcomes, func(o storetest.Outcome) bool { return !o.Allowed })
		if refused < 0 {
			t.Errorf("%d servers, client %s: none of %d requests was refused", len(servers), key, len(outcomes))
			continue
		}
		outcomes[refused].Allowed = true
		if storetest.CheckLogs(outcomes, limit) == nil {
			t.Errorf("client %s: a refusal made an admission is not found out", key)
		}
	}
	if len(clients) != 10 {
		t.Errorf("%d servers: the decisions are about %d clients, want 10", len(servers), len(clients))
	}
	t.Logf("proved: %d servers, %d clients, %d decisions, %d admitted, each as the limit says; "+
		"a forged admission of each client was found out", len(servers), len(clients), decided, admitted)
}

// load asks as one client after the other until the context is done, and until four of it have filled the limit.
func load(t *testing.T, ctx context.Context, url string) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for n := 0; ctx.Err() == nil || n < 300; n++ {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if i := n % 10; i < 2 {
			r.Header.Set("X-API-Key", fmt.Sprint("demo-key-", i+1))
		} else {
			r.Header.Set("X-Forwarded-For", fmt.Sprint("198.51.100.", i))
		}
		res, err := client.Do(r)
		if err != nil {
			t.Errorf("got the error %v, want an answer", err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// read returns the decisions in the logs about /api/data, by client.
func read(t *testing.T, logs []string) map[string][]storetest.Outcome {
	clients := map[string][]storetest.Outcome{}
	for _, log := range logs {
		err := decisionlog.Read(log, func(l decisionlog.Line) {
			if l.Rule != "" {
				return // of the whole server, or of another path
			}
			if l.Error != "" {
				t.Errorf("a decision on %s was not counted: %s", l.Key, l.Error)
			}
			clients[l.Key] = append(clients[l.Key], storetest.Outcome{At: l.Time(), Allowed: l.Allowed, Cost: l.Cost})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return clients
}

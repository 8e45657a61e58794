package sashotel_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// wantKind fails unless one error was counted, of the given kind, and the other kinds are
// reported too.
func wantKind(t *testing.T, w watcher, kind string) {
	t.Helper()
	w.wantPoints(t, "sash.store.errors", map[string]float64{"error.type=" + kind + " sash.store=redis": 1})
	if got := w.points(t, "sash.store.errors"); len(got) != 6 {
		t.Errorf("errors %v, want all 6 kinds, so that a rate knows the first failure", got)
	}
}

// TestKindsOfRedis: the mistakes that a new user makes, and a server that hangs.
func TestKindsOfRedis(t *testing.T) {
	server := redistest.Start(t)
	hanging := redistest.Start(t)
	hanging.Pause()
	gone := redistest.Start(t)
	gone.Kill()
	for _, test := range []struct {
		name    string
		options redis.Options
		kind    string
	}{
		{"wrong password", redis.Options{Addr: server.Addr(), Username: "sash", Password: "wrong"}, "server"},
		{"no such database", redis.Options{Addr: server.Addr(), DB: 99}, "server"},
		{"nothing on the port", redis.Options{Addr: gone.Addr()}, "connection"},
		{"no answer", redis.Options{Addr: hanging.Addr()}, "timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := redis.NewClient(&test.options)
			defer client.Close()
			w := watch(t)
			limiter, err := core.New(core.Config{
				Name: "api", Store: redisstore.New(client), Limits: []core.Limit{core.PerMinute(1)},
				Timeout: 500 * time.Millisecond, Observer: w.For("redis"),
			})
			if err != nil {
				t.Fatal(err)
			}
			d := limiter.Allow(t.Context(), "user:1")
			wantKind(t, w, test.kind)
			if t.Failed() {
				t.Logf("the error: %v", d.Err)
			}
		})
	}
}

// TestKinds: errors that no server was needed for.
func TestKinds(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind string
	}{
		{core.ErrStoreFull, "full"},
		{core.ErrUnavailable, "unavailable"},
		{core.ErrTimeout, "timeout"},
		{io.EOF, "connection"},
		{io.ErrUnexpectedEOF, "connection"},
		{io.ErrNoProgress, "other"},
	} {
		w := watch(t)
		w.For("redis").Observe(t.Context(),
			decided(core.FromPolicy, true, fmt.Errorf("%w: %w", core.ErrStore, test.err)))
		wantKind(t, w, test.kind)
	}
}

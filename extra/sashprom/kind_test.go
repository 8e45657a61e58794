package sashprom_test

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/sashprom"
	"github.com/sashlimit/sash/internal/redistest"
)

// wantKind fails unless m has counted one error, of the given kind.
func wantKind(t *testing.T, m *sashprom.Metrics, kind string) {
	t.Helper()
	var want []string
	for _, k := range []string{"connection", "full", "other", "server", "timeout", "unavailable"} {
		n := 0
		if k == kind {
			n = 1
		}
		want = append(want, fmt.Sprintf(`sash_store_errors_total{kind=%q,store="redis"} %d`, k, n))
	}
	if got := samples(scrape(t, m), "sash_store_errors_total"); !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
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
			m := sashprom.New()
			limiter, err := core.New(core.Config{
				Name: "api", Store: redisstore.New(client), Limits: []core.Limit{core.PerMinute(1)},
				Timeout: 500 * time.Millisecond, Observer: m.For("redis"),
			})
			if err != nil {
				t.Fatal(err)
			}
			d := limiter.Allow(t.Context(), "user:1")
			wantKind(t, m, test.kind)
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
		m := sashprom.New()
		m.For("redis").Observe(t.Context(),
			decided(core.FromPolicy, true, fmt.Errorf("%w: %w", core.ErrStore, test.err)))
		wantKind(t, m, test.kind)
	}
}

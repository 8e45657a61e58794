package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

var ctx = context.Background()

// calls is how often a server has run a command.
func calls(t *testing.T, rdb redis.UniversalClient, command string) (n int) {
	t.Helper()
	for _, line := range strings.Split(rdb.Info(ctx, "commandstats").Val(), "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			if _, err := fmt.Sscanf(rest, "%d,", &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

func TestOneRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	l := core.Must(core.New(core.Config{
		Store:   redisstore.New(rdb),
		Limits:  []core.Limit{core.PerSecond(100), core.PerMinute(100), core.PerHour(100).Using(core.SlidingCounter)},
		Timeout: 20 * time.Second,
	}))
	if d := l.Allow(ctx, "warm up"); d.Err != nil {
		t.Fatal(d.Err)
	}
	rdb.ConfigResetStat(ctx)
	for range 10 {
		if d := l.Allow(ctx, "k"); d.Err != nil || !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	if n, time := calls(t, rdb, "evalsha"), calls(t, rdb, "time"); n != 10 || time != 10 {
		t.Errorf("10 decisions under 3 limits took %d scripts that read the time %d times", n, time)
	}
}

// TestScriptIsLoadedAgain: a server that has lost its scripts is told again,
// and no request notices.
func TestScriptIsLoadedAgain(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l := core.Must(core.New(core.Config{Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(100)}, Timeout: 20 * time.Second}))
	for i := range int64(20) {
		if i%3 == 0 {
			rdb.ScriptFlush(ctx)
		}
		if d := l.Allow(ctx, "k"); d.Err != nil || d.Remaining != 99-i {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
}

// TestSilentServer: with a stock client, whose deadlines are off and which
// retries three times, a decision ends while the server is still silent, and
// each decision's script is sent once.
func TestSilentServer(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	store := redisstore.New(rdb)
	limits := []core.Limit{core.PerHour(1000)}
	warm := core.Must(core.New(core.Config{Name: "warm", Store: store, Limits: limits, Timeout: 20 * time.Second}))
	if d := warm.Allow(ctx, "k"); d.Err != nil {
		t.Fatal(d.Err)
	}
	rdb.ConfigResetStat(ctx)

	const decisions = 10
	open := core.Must(core.New(core.Config{Name: "a", Store: store, Limits: limits, Timeout: 30 * time.Millisecond}))
	closed := open.WithPolicy(core.FailClosed)
	server.Pause()
	for i := range decisions {
		l, want := open, true
		if i%2 == 1 {
			l, want = closed, false
		}
		d := l.Allow(ctx, "k")
		if d.Allowed != want || !errors.Is(d.Err, core.ErrStore) || d.Limit != (core.Limit{}) {
			t.Errorf("decision %d: %+v", i, d)
		}
	}
	server.Resume()
	redistest.WaitFor(t, "the scripts that were on their way", func() error {
		if n := calls(t, server.Client(t), "evalsha"); n > decisions {
			t.Fatalf("%d scripts for %d decisions", n, decisions)
		}
		d := open.Allow(ctx, "other")
		return d.Err
	})
	if d := warm.AllowN(ctx, "k", 0); d.Err != nil || d.Remaining < 1000-2 {
		t.Errorf("charged more than once: %+v", d)
	}
}

// TestRefusedConnection: a server starts while Redis is down, and heals by
// itself when Redis comes.
func TestRefusedConnection(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	server.Kill()
	l := core.Must(core.New(core.Config{Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(10)}, OnStoreError: core.FailClosed, Timeout: 30 * time.Millisecond}))
	for range 30 {
		if d := l.Allow(ctx, "k"); d.Allowed || !errors.Is(d.Err, core.ErrStore) {
			t.Fatalf("%+v", d)
		}
	}
	if err := l.Reset(ctx, "k"); !errors.Is(err, core.ErrStore) {
		t.Errorf("Reset: %v", err)
	}
	server.Restart()
	redistest.WaitFor(t, "a counted decision", func() error { return l.AllowN(ctx, "k", 0).Err })
}

func TestConstructors(t *testing.T) {
	limits := []core.Limit{core.PerMinute(1)}
	var noClient *redis.Client
	var noCluster *redis.ClusterClient
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	for want, store := range map[string]core.Store{
		`redisstore.New(nil): give a client`:                            redisstore.New(nil),
		`redisstore.New(nil): give a client,`:                           redisstore.New(noClient),
		`redisstore.New(nil): give a client, such`:                      redisstore.New(noCluster),
		`redisstore.WithPrefix("a{b"): give 1 to 128 bytes without`:     redisstore.New(rdb, redisstore.WithPrefix("a{b")),
		`redisstore.WithPrefix(""): give 1 to 128 bytes without braces`: redisstore.New(rdb, redisstore.WithPrefix("")),
	} {
		if _, err := core.New(core.Config{Store: store, Limits: limits}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := core.New(core.Config{Store: redisstore.New(rdb), Limits: limits}); err != nil {
		t.Errorf("a server that is down: %v", err)
	}
	if err := redisstore.New(rdb).Close(); err != nil || rdb.Ping(ctx).Err() == redis.ErrClosed {
		t.Errorf("Close closed the caller's client: %v", err)
	}
}

func TestOpen(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:6379", "http://:secret@127.0.0.1", "redis://:secret@127.0.0.1:x/0", "redis://:secret@127.0.0.1/zero"} {
		if _, err := redisstore.Open(url); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "redis://") {
			t.Errorf("Open(%q): %v", url, err)
		}
	}
	store, err := redisstore.Open(redistest.Start(t).URL(), redisstore.WithPrefix("mine"))
	if err != nil {
		t.Fatal(err)
	}
	l := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{core.PerMinute(1)}, OnStoreError: core.FailClosed, Timeout: 20 * time.Second}))
	if d := l.Allow(ctx, "k"); d.Err != nil || !d.Allowed {
		t.Errorf("%+v", d)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if d := l.Allow(ctx, "k"); d.Allowed || !errors.Is(d.Err, redis.ErrClosed) {
		t.Errorf("after Close: %+v", d)
	}
}

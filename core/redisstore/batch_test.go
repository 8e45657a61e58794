package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// together makes requests while the server is paused, so that all but the
// first few wait for each other, and returns what each was answered.
func together(t *testing.T, server *redistest.Server, requests []func() core.Decision) []core.Decision {
	t.Helper()
	server.Pause()
	answers := make([]core.Decision, len(requests))
	var started, finished sync.WaitGroup
	for i, request := range requests {
		started.Add(1)
		finished.Go(func() {
			started.Done()
			answers[i] = request()
		})
	}
	started.Wait()
	server.Resume()
	finished.Wait()
	return answers
}

// TestBatchKeepsRequestsApart: in one batch a foreign value, a caller who has
// left, different rules, costs and a peek touch nobody but themselves.
func TestBatchKeepsRequestsApart(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	store := redisstore.New(rdb)
	if err := redisstore.Join(store); err != nil {
		t.Fatal(err)
	}
	config := core.Config{
		Name: "a", Store: store, Limits: []core.Limit{core.PerHour(100)},
		OnStoreError: core.FailClosed, Timeout: patient,
	}
	a := limiter(t, config)
	config.Name, config.Limits = "b", []core.Limit{core.PerHour(50)}
	b := limiter(t, config)
	if d := a.Allow(ctx, "warm up"); d.Err != nil {
		t.Fatal(d.Err)
	}
	rdb.Set(ctx, "sash:{a//foreign}:l1h0m0s", "text", 0)
	left, leave := context.WithCancel(ctx)
	defer leave()
	var requests []func() core.Decision
	add := func(request func() core.Decision) { requests = append(requests, request) }
	for i := range 40 {
		key := fmt.Sprint("client ", i)
		add(func() core.Decision { return a.Allow(ctx, key) })
		add(func() core.Decision { return b.AllowN(ctx, key, 7) })
		switch i {
		case 20:
			add(func() core.Decision { return a.Allow(ctx, "foreign") })
		case 21:
			add(func() core.Decision { leave(); return a.Allow(left, "left") })
		case 22:
			add(func() core.Decision { return a.AllowN(ctx, "too much", 101) })
		case 23:
			add(func() core.Decision { return a.Peek(ctx, "peek") })
		}
	}
	rdb.ConfigResetStat(ctx)
	var foreign, gone int
	for _, d := range together(t, server, requests) {
		switch {
		case errors.Is(d.Err, redisstore.ErrForeign):
			foreign++
		case errors.Is(d.Err, context.Canceled):
			gone++
		case d.Err != nil:
			t.Errorf("%+v", d)
		case d.RetryAfter == core.Never:
			if d.Limit.Requests != 100 || d.Remaining != 100 {
				t.Errorf("too much: %+v", d)
			}
		case !d.Allowed || d.Limit.Requests == 100 && d.Remaining != 99 || d.Limit.Requests == 50 && d.Remaining != 43:
			t.Errorf("%+v", d)
		}
	}
	if foreign != 1 || gone != 1 {
		t.Errorf("%d foreign values and %d callers who left, want one each", foreign, gone)
	}
	if n := calls(t, rdb, "evalsha"); n > len(requests)/2 {
		t.Errorf("%d requests that waited together took %d scripts", len(requests), n)
	}
	for key, want := range map[string]int64{"foreign": 100, "left": 100, "too much": 100, "peek": 100, "client 7": 99} {
		if d := a.AllowN(ctx, key, 0); d.Err != nil || d.Remaining != want {
			t.Errorf("%s afterwards: %+v, want %d remaining", key, d, want)
		}
	}
}

// TestBatchCrossSlot: where a server takes no keys of several slots, none of the
// requests that came together is lost, and from then on each has a script of its
// own, those that wait together one pipeline.
func TestBatchCrossSlot(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	server := cluster.Servers[0]
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	l := limiter(t, core.Config{
		Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(10)},
		OnStoreError: core.FailClosed, Timeout: patient,
	})
	var requests []func() core.Decision
	for i := 0; len(requests) < 30; i++ {
		if key := fmt.Sprint("client ", i); cluster.MasterOf("sash:{//client%20"+fmt.Sprint(i)+"}:l1h0m0s") == server {
			if len(requests) == 0 {
				if d := l.AllowN(ctx, key, 0); d.Err != nil {
					t.Fatal(d.Err)
				}
			}
			requests = append(requests, func() core.Decision { return l.Allow(ctx, key) })
		}
	}
	for round := range 2 {
		connections := func() uint32 { stats := rdb.PoolStats(); return stats.Hits + stats.Misses }
		before := connections()
		for _, d := range together(t, server, requests) {
			if d.Err != nil || !d.Allowed {
				t.Errorf("%+v", d)
			}
		}
		if used := connections() - before; round == 1 && used > uint32(len(requests)/2) {
			t.Errorf("%d requests took a connection %d times", len(requests), used)
		}
	}
	if d := requests[0](); d.Remaining != 7 {
		t.Errorf("charged more or less than once each: %+v", d)
	}
}

// TestBatchFull: a server without memory still refuses those who are at their
// limit, also beside others whom it cannot count.
func TestBatchFull(t *testing.T) {
	server := redistest.Start(t)
	for _, a := range core.Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			config := core.Config{
				Name: a.String(), Store: redisstore.New(server.Client(t)),
				Limits: []core.Limit{core.PerDay(1).Using(a)}, Timeout: patient,
			}
			earlier := limiter(t, config)
			config.Store = redisstore.New(server.Client(t)) // which remembers no refusal
			l := limiter(t, config)
			const clients = 40
			var requests []func() core.Decision
			for i := range clients {
				if d := earlier.Allow(ctx, fmt.Sprint(i)); d.Err != nil || !d.Allowed {
					t.Fatalf("%+v", d)
				}
				requests = append(requests,
					func() core.Decision { return l.Allow(ctx, fmt.Sprint("new ", i)) },
					func() core.Decision { return l.Allow(ctx, fmt.Sprint(i)) })
			}
			if d := l.AllowN(ctx, "warm", 0); d.Err != nil {
				t.Fatal(d.Err)
			}
			rdb := admin(t, server.Addr())
			rdb.ConfigSet(ctx, "maxmemory", "1000")
			defer rdb.ConfigSet(ctx, "maxmemory", "0")
			for i, d := range together(t, server, requests) {
				switch i % 2 {
				case 0:
					if !errors.Is(d.Err, core.ErrStore) || !strings.Contains(d.Err.Error(), "OOM") {
						t.Errorf("a newcomer: %+v", d)
					}
				case 1:
					if d.Err != nil || d.Allowed || d.Limit.Requests != 1 {
						t.Errorf("one at its limit: %+v", d)
					}
				}
			}
		})
	}
}

//go:build !short

package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/notice"
	"github.com/sashlimit/sash/internal/redistest"
)

// notices is an observer that hands on notices.
type notices chan core.Notice

func (notices) Observe(context.Context, core.Event)           {}
func (n notices) Notice(_ context.Context, heard core.Notice) { n <- heard }

// noticing returns a limiter on a store, with a timeout that a busy machine keeps.
func noticing(t *testing.T, store core.Store, o core.Observer) *core.Limiter {
	return limiter(t, core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(100)},
		Timeout: patient, Observer: o})
}

// evicting are the arguments of a server that evicts.
var evicting = []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}

// TestEvictingIsNoticed: a server that evicts is told of, once, whatever the client is.
func TestEvictingIsNoticed(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t, evicting...)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": server.Addr()}})
	t.Cleanup(func() { ring.Close() })
	for what, rdb := range map[string]redis.UniversalClient{
		"a client": server.Client(t), "a ring": ring, "a client of another type": another{server.Client(t)},
	} {
		heard := make(notices, 10)
		store := redisstore.New(rdb)
		noticing(t, store, core.Silent)
		l := noticing(t, store, heard)
		n := <-heard
		if n.Code != notice.EvictionPolicy || n.Name != "api" || strings.HasPrefix(n.Text, "sash:") ||
			!strings.Contains(n.Text, "maxmemory-policy allkeys-lru") ||
			what != "a client of another type" && !strings.Contains(n.Text, server.Addr()) {
			t.Errorf("%s: the notice is %+v", what, n)
		}
		noticing(t, store, core.Observers(heard)).Allow(ctx, "k")
		core.Must(l.Rule("login", core.PerMinute(1))).Allow(ctx, "k")
		waitLooked(t)
		if len(heard) > 0 {
			t.Errorf("%s: told again: %+v", what, <-heard)
		}
	}
}

// waitLooked waits until no look at a server's memory is under way.
func waitLooked(t *testing.T) {
	t.Helper()
	redistest.WaitFor(t, "the looks at the memory to end", func() error {
		if _, stacks := goroutines(t); strings.Contains(stacks, "warnOfEviction") {
			return errors.New(stacks)
		}
		return nil
	})
}

// TestEvictingIsNotLookedAt: nothing is said of a server that does not evict or refuses
// INFO, and nothing is asked where nobody hears.
func TestEvictingIsNotLookedAt(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t, evicting...)
	root := admin(t, server.Addr())
	do(t, root, "ACL SETUSER api on nopass ~* +@all -info")
	heard := make(notices, 10)
	for _, c := range []struct {
		name           string
		memory, policy string
		options        redis.Options
		observer       core.Observer
		looked         int // how often the server answered INFO
	}{
		{"no maximum", "0", "allkeys-lru", redis.Options{}, heard, 1},
		{"no eviction", "100mb", "noeviction", redis.Options{}, heard, 1},
		{"INFO is refused", "100mb", "allkeys-lru", redis.Options{Username: "api", Password: "any"}, heard, 0},
		{"nobody hears", "100mb", "allkeys-lru", redis.Options{}, core.Silent, 0},
	} {
		do(t, root, "CONFIG SET maxmemory "+c.memory+" maxmemory-policy "+c.policy, "CONFIG RESETSTAT")
		c.options.Addr = server.Addr()
		rdb := redis.NewClient(&c.options)
		l := noticing(t, redisstore.New(rdb), c.observer)
		for range 3 {
			if d := l.Allow(ctx, "k"); d.Err != nil {
				t.Errorf("%s: %v", c.name, d.Err)
			}
		}
		asked := 0 // by this test
		redistest.WaitFor(t, c.name+": a look at the memory", func() error {
			asked++
			if calls(t, root, "info") < asked-1+c.looked {
				return errors.New("no INFO")
			}
			return nil
		})
		waitLooked(t)
		rdb.Close()
		if n := calls(t, root, "info") - asked; n != c.looked || len(heard) > 0 {
			t.Errorf("%s: INFO was answered %d times, want %d; %d notices, want none", c.name, n, c.looked, len(heard))
		}
	}
}

// silentInfo is a client whose INFO is answered when it is released.
type silentInfo struct {
	redis.UniversalClient
	release chan struct{}
}

func (c silentInfo) Info(context.Context, ...string) *redis.StringCmd {
	<-c.release
	panic("a reply that cannot be read")
}

// TestSilentInfo: no decision waits for the look, whatever comes of it.
func TestSilentInfo(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	rdb := silentInfo{redistest.Start(t, evicting...).Client(t), make(chan struct{})}
	heard := make(notices, 10)
	l := noticing(t, redisstore.New(rdb), heard)
	for range 3 {
		if d := l.Allow(ctx, "k"); d.Err != nil {
			t.Fatal(d.Err)
		}
	}
	select {
	case rdb.release <- struct{}{}: // the decisions are made, and the look waits for its reply
	case <-time.After(10 * time.Second):
		t.Fatal("the decisions were made, and no look is under way")
	}
	waitLooked(t)
	if len(heard) > 0 {
		t.Errorf("told of %+v", <-heard)
	}
}

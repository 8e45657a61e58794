package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/redistest"
)

var ctx = context.Background()

// bind returns how a server counts by limits.
func bind(t *testing.T, rdb redis.UniversalClient, limits ...core.Limit) *ledger {
	t.Helper()
	s := New(rdb)
	s.isWarm = true // what a test sends is all that is sent
	l, err := core.New(core.Config{Name: "test", Store: s, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return s.newLedger(core.Binding{Name: "test", Limits: l.Limits()})
}

// watchedConn calls onWrite, on the goroutine that writes.
type watchedConn struct {
	net.Conn
	onWrite func()
}

func (c watchedConn) Write(b []byte) (int, error) {
	c.onWrite()
	return c.Conn.Write(b)
}

// watched returns the options of a client whose connections are watched.
func watched(addr string, onWrite func()) *redis.Options {
	return &redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return watchedConn{conn, onWrite}, err
	}}
}

// TestLoneCaller: a caller that is alone sends its request itself, unless a part of the program runs while it waits for
// a connection.
func TestLoneCaller(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		var inline atomic.Bool
		o := watched(redistest.Start(t).Addr(), func() {
			stack := make([]byte, 64<<10)
			stack = stack[:runtime.Stack(stack, false)]
			inline.Store(bytes.Contains(stack, []byte(").serveInline(")))
		})
		if !prompt {
			o.OnConnect = func(context.Context, *redis.Conn) error { return nil }
		}
		rdb := redis.NewClient(o)
		defer rdb.Close()
		c := bind(t, rdb, core.PerHour(100_000))
		redistest.WaitFor(t, "an answer in time", func() error {
			err := c.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Timeout: time.Second}).Err
			if err == nil && prompt && !inline.Load() {
				err = errors.New("the server took too long before, so the caller left the request to a worker")
			}
			return err
		})
		if inline.Load() != prompt {
			t.Errorf("the caller sent its request itself: %v, want %v", inline.Load(), prompt)
		}
	}
}

// TestScriptsBounded: a store keeps few scripts, however many kinds of rules are bound, and a rule whose
// script is no longer kept goes on.
func TestScriptsBounded(t *testing.T) {
	t.Parallel()
	s := New(redistest.Start(t).Client(t))
	rng := rand.New(rand.NewPCG(1, 16))
	take := func(c core.Ledger, key string) {
		t.Helper()
		if d := c.Take(ctx, core.Ask{Key: key, Cost: 1}); d.Err != nil || !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	var first core.Ledger
	for i := range 3 * maxScripts {
		limits := make([]core.Limit, 1+rng.IntN(script.MaxLimits))
		for i := range limits {
			limits[i] = core.PerHour(10).Using(core.Algorithm(rng.IntN(len(core.Algorithms())))).Named(fmt.Sprint(i))
		}
		c, err := s.Bind(core.Binding{Name: "test", Rule: fmt.Sprint(i), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = c
		}
		if i%50 == 0 {
			take(c, "k")
		}
		if len(s.scripts) > maxScripts {
			t.Fatalf("%d scripts after %d rules", len(s.scripts), i+1)
		}
	}
	if len(s.scripts) != maxScripts {
		t.Errorf("%d scripts, want %d", len(s.scripts), maxScripts)
	}
	clear(s.scripts)
	take(first, "k")
}

// TestPlan: requests with the same limits of their own are decided by one ledger, and others by another, also if the
// caller has changed the limits.
func TestPlan(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	rule, plan := bind(t, rdb, core.PerMinute(3)), []core.Limit{core.PerMinute(5)}
	first := rule.with(&core.Override{Limits: plan})
	if again := rule.with(&core.Override{Limits: slices.Clone(plan)}); again != first {
		t.Error("the same limits have another ledger")
	}
	plan[0].Requests = 7
	other := rule.with(&core.Override{Limits: plan})
	if first.rule.Limits[0].Requests != 5 || other.rule.Limits[0].Requests != 7 || other.rule.Args[0] != "7" {
		t.Errorf("%v, then %v by the arguments %v", first.rule.Limits, other.rule.Limits, other.rule.Args)
	}
}

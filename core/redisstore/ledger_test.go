package redisstore

import (
	"bytes"
	"context"
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

// watchedConn calls onRead before it reads, on the goroutine that reads, with the deadline.
type watchedConn struct {
	net.Conn
	onRead func(deadline time.Time)
}

func (c watchedConn) SetReadDeadline(at time.Time) error {
	c.onRead(at)
	return c.Conn.SetReadDeadline(at)
}

// TestLoneCaller: a caller that is alone sends its request itself, unless a part of the program runs while it waits for
// a connection. The connection waits as long as the decision does, and the client's own settings stay what they were.
func TestLoneCaller(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		var inline atomic.Bool
		var last atomic.Pointer[time.Time] // deadline
		o := &redis.Options{Addr: redistest.Start(t).Addr()}
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return watchedConn{conn, func(deadline time.Time) {
				stack := make([]byte, 64<<10)
				stack = stack[:runtime.Stack(stack, false)]
				inline.Store(bytes.Contains(stack, []byte(").serveInline(")))
				last.Store(&deadline)
			}}, err
		}
		if !prompt {
			o.OnConnect = func(context.Context, *redis.Conn) error { return nil }
		}
		rdb := redis.NewClient(o)
		defer rdb.Close()
		before := *rdb.Options()
		c := bind(t, rdb, core.PerHour(100_000))
		redistest.WaitFor(t, "an answer in time", func() error {
			start := time.Now()
			if err := c.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Timeout: time.Second}).Err; err != nil {
				return err
			}
			waits, most := last.Load().Sub(start), time.Second+time.Since(start)
			if inline.Load() != prompt || waits < time.Second || waits > most {
				return fmt.Errorf("sent by the caller: %v, want %v; the connection waits for %v, want 1s to %v",
					inline.Load(), prompt, waits, most)
			}
			return nil
		})
		if o := rdb.Options(); o.ContextTimeoutEnabled != before.ContextTimeoutEnabled ||
			o.ReadTimeout != before.ReadTimeout || o.WriteTimeout != before.WriteTimeout {
			t.Errorf("the client's own options became %+v", o)
		}
	}
}

// TestScriptsBounded: a store keeps few scripts, however many kinds of rules are bound, and a rule whose
// script is no longer kept goes on.
func TestScriptsBounded(t *testing.T) {
	t.Parallel()
	s := New(redistest.Start(t).Client(t))
	rng := rand.New(rand.NewPCG(1, 16))
	var rules []core.Ledger
	for i := range 3 * maxScripts {
		limits := make([]core.Limit, 1+rng.IntN(script.MaxLimits))
		for i := range limits {
			limits[i] = core.PerHour(10).Using(core.Algorithm(rng.IntN(len(core.Algorithms())))).Named(fmt.Sprint(i))
		}
		c, err := s.Bind(core.Binding{Name: "test", Rule: fmt.Sprint(i), Limits: limits})
		if rules = append(rules, c); err != nil || len(s.scripts) > maxScripts {
			t.Fatalf("%d scripts after %d rules, %v", len(s.scripts), i+1, err)
		}
	}
	for i := 0; i < len(rules); i += 50 {
		if d := rules[i].Take(ctx, core.Ask{Key: "k", Cost: 1}); d.Err != nil || !d.Allowed {
			t.Fatalf("rule %d: %+v", i, d)
		}
	}
}

// TestPlan: requests with the same limits of their own are decided by one ledger, and others by another, also if the
// caller has changed the limits.
func TestPlan(t *testing.T) {
	rule, plan := bind(t, redis.NewRing(&redis.RingOptions{}), core.PerMinute(3)), []core.Limit{core.PerMinute(5)}
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

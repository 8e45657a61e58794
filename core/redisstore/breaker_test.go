//go:build !short

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
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestOpenNamesTheCause: the error of a decision that did not wait names what has opened the
// breaker, and its remedy, also for rules that had nothing to do with that.
func TestOpenNamesTheCause(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	root := admin(t, server.Addr())
	for name, rdb := range map[string]redis.UniversalClient{
		"alone":       server.Client(t),
		"in pipeline": redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}}),
	} {
		defer rdb.Close()
		store := redisstore.New(rdb)
		l := closedFor(t, store, patient)
		redistest.WaitFor(t, "a decision", func() error { return l.Allow(ctx, "k").Err })
		root.Do(ctx, "REPLICAOF", "127.0.0.1", 1)
		redistest.WaitFor(t, "the breaker to open", func() error {
			if err := l.Allow(ctx, "k").Err; !errors.Is(err, core.ErrUnavailable) {
				return fmt.Errorf("got %v", err)
			}
			return nil
		})
		other := core.Must(l.Rule("other", core.PerMinute(1)))
		for range 50 {
			err := other.Allow(ctx, "k").Err
			if !errors.Is(err, core.ErrUnavailable) || !mentions(err, "did not wait", server.Addr()+": ", "READONLY") ||
				!strings.Contains(errs.RemedyOf(err), "give the master's address") || strings.Count(err.Error(), "sash: ") != 1 {
				t.Fatalf("%s: %v; remedy: %s", name, err, errs.RemedyOf(err))
			}
		}
		root.Do(ctx, "REPLICAOF", "NO", "ONE")
	}
}

// TestNoBreakerEvent: what is not the server's fault does not speak against it: callers who leave, or had left, and
// foreign values, which are told without the client's name and replaced.
func TestNoBreakerEvent(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	rdb := server.Client(t)
	store := redisstore.New(rdb)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1000)}, Timeout: patient})
	const times = 10 // more than open a breaker
	for i := range times {
		client := fmt.Sprint("client ", i)
		rdb.Set(ctx, redisstore.Keys(store, l, client)[0], "a text", 0)
		d := l.Allow(ctx, client)
		if !d.Allowed || !errors.Is(d.Err, core.ErrStore) || !mentions(d.Err, "sash:{...}:l1h0m0s") ||
			mentions(d.Err, "client") {
			t.Errorf("got %+v, want an admission by the policy", d)
		}
		if d := l.Allow(ctx, client); !d.Allowed || d.Err != nil {
			t.Errorf("replaced: %+v", d)
		}
	}
	redisstore.Settle(t, store)
	sent := calls(t, rdb, "evalsha")
	left, leave := context.WithCancel(ctx)
	leave()
	for range times {
		if d := l.Allow(left, "k"); d.Allowed || d.Err != context.Canceled {
			t.Errorf("a caller who had left: %+v", d)
		}
	}
	if n := calls(t, rdb, "evalsha"); n != sent {
		t.Errorf("%d scripts were sent for callers who had left", n-sent)
	}
	server.Pause()
	defer server.Resume()
	for range times {
		hasty, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		if d := l.Allow(hasty, "k"); d.Allowed || d.Err != context.DeadlineExceeded {
			t.Errorf("a caller who leaves: %+v", d)
		}
		cancel()
	}
	state, n := redisstore.BreakerState(store, ""), redisstore.BreakerFailures(store)
	if state != "closed" || n != 0 {
		t.Errorf("the breaker is %s after %d failures", state, n)
	}
}

// TestCloseWhileSilent: Close of the client ends, though a decision waits for a silent server: a program can stop.
// go-redis 9.19 waited for the server.
func TestCloseWhileSilent(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	p := redistest.StartWay(t, redistest.Start(t).Addr(), nil)
	store, err := redisstore.Open("redis://" + p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l := closedFor(t, store, time.Hour)
	redistest.WaitFor(t, "a first decision", func() error { return l.AllowN(ctx, "k", 0).Err })
	p.Mode.Store(redistest.StaysSilent)
	decided, closed := make(chan core.Decision, 1), make(chan error, 1)
	go func() { decided <- l.Allow(ctx, "k") }()
	redistest.WaitFor(t, "the reply to be lost", func() error {
		if p.Lost.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	go func() { closed <- store.Close() }()
	redistest.WaitFor(t, "Close to end", func() error {
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
			return nil
		default:
			return errors.New("it has not")
		}
	})
	if d := <-decided; d.Allowed || !errors.Is(d.Err, core.ErrStore) {
		t.Errorf("got %+v, want a refusal", d)
	}
}

// TestRefusalsInAnOutage: a client that is refused stays so while Redis is down, as long
// as it would have been, whatever the policy. Only the request that asks, once a second,
// may be answered by the policy: whether it was counted is not known. A reset that fails
// ends the refusal, since Redis may have done it.
func TestRefusalsInAnOutage(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t))
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1)}, Timeout: 50 * time.Millisecond})
	redistest.WaitFor(t, "a refusal", func() error {
		if d := l.Allow(ctx, "k"); d.Allowed {
			return errors.New("admitted")
		}
		return nil
	})
	server.Kill()
	asked, byPolicy, start := 0, 0, time.Now()
	for ; time.Since(start) < redisstore.AskAgain*3/2; asked++ {
		switch d := l.Allow(ctx, "k"); {
		case errors.Is(d.Err, core.ErrStore):
			byPolicy++
		case d.Allowed || d.Err != nil || d.RetryAfter <= 0:
			t.Errorf("%+v", d)
		}
	}
	if most := int(time.Since(start)/redisstore.AskAgain) + 1; byPolicy > most {
		t.Errorf("the policy answered %d times, want at most %d", byPolicy, most)
	}
	if d := l.Allow(ctx, "another"); !d.Allowed || !errors.Is(d.Err, core.ErrStore) {
		t.Errorf("another: %+v", d)
	}
	if err := l.Reset(ctx, "k"); !errors.Is(err, core.ErrStore) {
		t.Errorf("a reset without Redis: got %v, want ErrStore", err)
	}
	if d := l.Allow(ctx, "k"); !d.Allowed || !errors.Is(d.Err, core.ErrStore) {
		t.Errorf("after the reset: got %+v, want an admission by the policy", d)
	}
	t.Logf("asked %d times", asked)
}

// TestRefusalsAfterALostReply: a request whose reply is lost may have been counted. The
// policy answers it, even if another request has been refused meanwhile.
func TestRefusalsAfterALostReply(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	p := redistest.StartWay(t, server.Addr(), nil)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
	t.Cleanup(func() { rdb.Close() })
	l := limiter(t, core.Config{
		Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(1)}, OnStoreError: core.FailClosed,
		Timeout: 2 * time.Second,
	})
	redistest.WaitFor(t, "a first decision", func() error { return l.AllowN(ctx, "k", 0).Err })
	p.Mode.Store(redistest.StaysSilent)
	counted := make(chan core.Decision)
	go func() { counted <- l.Allow(ctx, "k") }()
	redistest.WaitFor(t, "the reply to be lost", func() error {
		if p.Lost.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	p.Mode.Store(redistest.Passes)
	redistest.WaitFor(t, "a refusal that is remembered", func() error {
		if d := l.Allow(ctx, "k"); d.Allowed || d.Source != core.SourceRemembered {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	if d := <-counted; d.Allowed || !errors.Is(d.Err, core.ErrStore) {
		t.Errorf("the request that was counted: %+v", d)
	}
}

// TestResetTooLate: a reset whose caller has left resets nothing, neither in Redis nor
// in the process.
func TestResetTooLate(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	rdb := redistest.Start(t).Client(t)
	ended, end := context.WithCancel(ctx)
	end()
	for _, options := range [][]redisstore.Option{nil, {redisstore.WithLease(100, time.Minute)}} {
		rdb.FlushAll(ctx)
		c, err := redisstore.New(rdb, options...).Bind(core.Binding{Limits: []core.Limit{core.PerHour(1000)}})
		if err != nil {
			t.Fatal(err)
		}
		take := func(cost int64) core.Decision {
			t.Helper()
			d, err := c.Take(ctx, core.Ask{Key: "k", Cost: cost})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for range 30 {
			take(1)
		}
		rdb.ConfigResetStat(ctx)
		for range 20 {
			if err := c.Reset(ended, "k"); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
		if n := calls(t, rdb, "del"); n != 0 {
			t.Errorf("%d keys were deleted", n)
		}
		if d := take(1); !d.Allowed || options != nil && d.Source != core.SourceLeased {
			t.Errorf("%+v", d)
		}
		for take(100).Allowed || take(1).Allowed {
		}
		rdb.ConfigResetStat(ctx)
		if err := c.Reset(ended, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if d := take(1); d.Allowed || d.Source != core.SourceRemembered {
			t.Errorf("%+v", d)
		}
	}
}

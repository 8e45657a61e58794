package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

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

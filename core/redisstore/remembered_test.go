package redisstore_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestRefusalsFlood: of a flood on a client that is refused, Redis sees a command
// a second from each process.
func TestRefusalsFlood(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	rdb := admin(t, server.Addr())
	const processes = 3 // a store each
	var limiters []*core.Limiter
	for range processes {
		l := limiter(t, core.Config{
			Store:   redisstore.New(server.Client(t)),
			Limits:  []core.Limit{core.PerHour(5), core.PerMinute(1000).Using(core.SlidingCounter)},
			Timeout: patient, OnStoreError: core.FailClosed,
		})
		limiters = append(limiters, l)
		for range 7 {
			l.Allow(ctx, "k")
		}
	}
	rdb.ConfigResetStat(ctx)
	start := time.Now()
	var mu sync.Mutex
	flood := 0
	var group sync.WaitGroup
	for _, l := range limiters {
		for range 2 {
			group.Go(func() {
				n := 0
				for ; time.Since(start) < 2*redisstore.AskAgain; n++ {
					d := l.Allow(ctx, "k")
					if d.Allowed || d.Err != nil || d.RetryAfter <= 0 || d.Remaining != 0 || d.Limit.Requests != 5 {
						t.Errorf("%+v", d)
						return
					}
				}
				mu.Lock()
				flood += n
				mu.Unlock()
			})
		}
	}
	group.Wait()
	// A command at the start of each second at most, however long this took.
	most := processes * (int(time.Since(start)/redisstore.AskAgain) + 1)
	if n := calls(t, rdb, "evalsha"); n > most {
		t.Errorf("%d requests of a blocked client cost Redis %d commands, want at most %d", flood, n, most)
	} else {
		t.Logf("%d requests of a blocked client cost Redis %d commands in %v",
			flood, n, time.Since(start).Round(time.Millisecond))
	}
}

// TestRefusalsOfCosts: a refused cost that does not go into the limit, or is above
// it, is remembered although something remains, and told what remains.
func TestRefusalsOfCosts(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	rdb := redistest.Start(t).Client(t)
	for _, options := range [][]redisstore.Option{nil, {redisstore.WithLease(10, time.Minute)}} {
		rdb.FlushAll(ctx)
		config := core.Config{
			Store:  redisstore.New(rdb, options...),
			Limits: []core.Limit{core.PerHour(200)}, OnStoreError: core.FailClosed, Timeout: patient,
		}
		l := limiter(t, config)
		check := func(cost int64) {
			t.Helper()
			config.Store = redisstore.New(rdb) // which remembers nothing
			got, want := l.AllowN(ctx, "k", cost), limiter(t, config).AllowN(ctx, "k", cost)
			if got.Allowed || got.Err != nil || got.Remaining != want.Remaining ||
				(got.RetryAfter == core.Never) != (want.RetryAfter == core.Never) {
				t.Errorf("cost %d: %+v, want %+v", cost, got, want)
			}
		}
		for i := range 199 {
			if i%4 == 0 { // each makes a store
				check(201)
			}
			if d := l.Allow(ctx, "k"); !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}
		start := time.Now()
		rdb.ConfigResetStat(ctx)
		for range 1000 {
			for _, cost := range []int64{2, 201, math.MaxInt64} {
				if d := l.AllowN(ctx, "k", cost); d.Allowed || d.ResetAfter < 0 {
					t.Fatalf("%+v", d)
				}
			}
		}
		most := 3 * (int(time.Since(start)/redisstore.AskAgain) + 1)
		if n := calls(t, rdb, "evalsha"); n > most {
			t.Errorf("3000 requests cost Redis %d commands, want at most %d", n, most)
		}
	}
}

// TestRefusalsEnd: what a process refuses by itself is what Redis would have
// refused: no client is refused while there is room, and each gets in when it
// was told that it would. The limits that bind take turns.
func TestRefusalsEnd(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	for name, limits := range map[string][]core.Limit{
		"one":   {core.Per(3, 50*time.Millisecond)},
		"two":   {core.Per(2, 30*time.Millisecond), core.Per(5, 200*time.Millisecond)},
		"costs": {core.Per(7, 60*time.Millisecond)},
	} {
		store := redisstore.New(server.Client(t))
		l := limiter(t, core.Config{
			Name: name, Store: store, Limits: limits, OnStoreError: core.FailClosed, Timeout: patient,
		})
		var mu sync.Mutex
		var outcomes []storetest.Outcome
		var group sync.WaitGroup
		end := time.Now().Add(500 * time.Millisecond)
		for i := range 4 {
			group.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					cost := int64(1)
					if name == "costs" {
						cost += int64((i + n) % 4)
					}
					d := l.AllowN(ctx, "k", cost)
					if d.Err != nil {
						t.Error(d.Err)
						return
					}
					mu.Lock()
					outcomes = append(outcomes, storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: cost})
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if err := storetest.CheckLogs(outcomes, limits...); err != nil {
			t.Errorf("%s: %v", name, err)
		}

		// Alone, a client that waits as long as it was told is let in.
		for i := range 4 {
			var d core.Decision
			for d = l.Allow(ctx, "alone"); d.Allowed; d = l.Allow(ctx, "alone") {
			}
			d = l.Allow(ctx, "alone") // by the process itself, if it remembers
			if d.Allowed {
				continue
			}
			time.Sleep(d.RetryAfter)
			if again := l.Allow(ctx, "alone"); !again.Allowed {
				t.Errorf("%s, round %d: told to wait %v, then refused for %v", name, i, d.RetryAfter, again.RetryAfter)
			}
		}
	}
}

// TestRefusalsReset: a reset is believed at once by the process that does it, and
// within a second by others; so is a limit that was raised.
func TestRefusalsReset(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	config := core.Config{Limits: []core.Limit{core.PerHour(1)}, OnStoreError: core.FailClosed, Timeout: patient}
	config.Store = redisstore.New(server.Client(t))
	here := limiter(t, config)
	config.Store = redisstore.New(server.Client(t))
	there := limiter(t, config)
	blocked := func(l *core.Limiter) {
		t.Helper()
		l.Allow(ctx, "k")
		for range 3 {
			if d := l.Allow(ctx, "k"); d.Allowed || d.Err != nil {
				t.Errorf("%+v", d)
			}
		}
	}
	blocked(here)
	blocked(there)
	if err := here.Reset(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if d := here.Peek(ctx, "k"); !d.Allowed {
		t.Errorf("the process that has reset it: %+v", d)
	}
	asked := time.Now()
	for !there.Peek(ctx, "k").Allowed {
		if time.Since(asked) > patient {
			t.Fatal("another process never sees the reset")
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("another process saw the reset after %v", time.Since(asked))

	blocked(there)
	config.Limits = []core.Limit{core.PerHour(2)}
	if d := limiter(t, config).Allow(ctx, "k"); !d.Allowed {
		t.Errorf("a raised limit: %+v", d)
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
	p := startProxy(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: p.addr()})
	t.Cleanup(func() { rdb.Close() })
	config := core.Config{
		Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(1)}, OnStoreError: core.FailClosed, Timeout: patient,
	}
	another := limiter(t, config)
	config.Timeout = 2 * time.Second
	l := limiter(t, config)
	redistest.WaitFor(t, "a first decision", func() error { return l.AllowN(ctx, "k", 0).Err })
	p.mode.Store(silences)
	counted := make(chan core.Decision)
	go func() { counted <- l.Allow(ctx, "k") }()
	redistest.WaitFor(t, "the reply to be lost", func() error {
		if p.lost.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	p.mode.Store(passes)
	if d := another.Allow(ctx, "k"); d.Allowed || d.Err != nil {
		t.Errorf("another request: %+v", d)
	}
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
		c, err := redisstore.New(rdb, options...).Bind(core.Rule{Limits: []core.Limit{core.PerHour(1000)}})
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
		if d := take(1); !d.Allowed || options != nil && d.Source != core.Leased {
			t.Errorf("%+v", d)
		}
		for take(100).Allowed || take(1).Allowed {
		}
		rdb.ConfigResetStat(ctx)
		if err := c.Reset(ended, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if d := take(1); d.Allowed || d.Source != core.Remembered {
			t.Errorf("%+v", d)
		}
	}
}

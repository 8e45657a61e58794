package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// most returns the most admissions that any window holds.
func most(admitted []time.Time, window time.Duration) (n int) {
	slices.SortFunc(admitted, time.Time.Compare)
	first := 0
	for i, at := range admitted {
		for !admitted[first].After(at.Add(-window)) {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// TestFallbackReplicas: the stores of four processes, on a real Redis that is silent for a
// while, keep the bound that core.Fallback promises.
func TestFallbackReplicas(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	const replicas, limit, window = 4, 20, 500 * time.Millisecond
	server := redistest.Start(t)
	var limiters []*core.Limiter
	for range replicas {
		limiters = append(limiters, limiter(t, core.Config{
			Store: redisstore.New(server.Client(t)), Limits: []core.Limit{core.Per(limit, window)}, Timeout: short,
			OnStoreError: core.Fallback(memstore.New(), core.Share(replicas)),
		}))
	}
	var mu sync.Mutex
	var admitted []time.Time
	var byFallback atomic.Int64
	stop := load(8, func(i int) {
		d := limiters[i%replicas].Allow(ctx, "k")
		if d.Allowed {
			mu.Lock()
			admitted = append(admitted, d.At)
			mu.Unlock()
			if d.Err != nil {
				byFallback.Add(1)
			}
		}
		time.Sleep(time.Millisecond)
	})
	t.Cleanup(stop)
	time.Sleep(window)
	server.Pause()
	redistest.WaitFor(t, "the fallbacks to decide", func() error {
		if byFallback.Load() < limit/replicas {
			return errors.New("too few")
		}
		return nil
	})
	time.Sleep(window)
	server.Resume()
	for _, l := range limiters {
		redistest.WaitFor(t, "Redis to count again", func() error { return l.AllowN(ctx, "k", 0).Err })
	}
	time.Sleep(2 * window)
	stop()
	if n := most(admitted, window); n > 2*limit {
		t.Errorf("a window holds %d, more than %d + %d", n, limit, limit)
	} else {
		t.Logf("the fullest window held %d of %d + %d", n, limit, limit)
	}
}

// TestFallbackFailsToo: whom neither can be asked about is refused.
func TestFallbackFailsToo(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	first, second := redistest.Start(t), redistest.Start(t)
	l := limiter(t, core.Config{
		Store: redisstore.New(first.Client(t)), Limits: []core.Limit{core.PerHour(10)}, Timeout: 100 * time.Millisecond,
		OnStoreError: core.Fallback(redisstore.New(second.Client(t))),
	})
	first.Kill()
	redistest.WaitFor(t, "the second Redis to decide", func() error {
		if d := l.Allow(ctx, "k"); !d.Allowed || d.Limit.Requests != 10 {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	second.Kill()
	for range 20 {
		if d := l.Allow(ctx, "k"); d.Allowed || !errors.Is(d.Err, core.ErrStore) {
			t.Errorf("%+v", d)
		}
	}
}

// TestFallbackReset: a reset clears the store, the fallback and what this
// process refuses by itself; when Redis cannot be reached, at least the last two.
func TestFallbackReset(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	l := limiter(t, core.Config{
		Store: redisstore.New(server.Client(t)), Limits: []core.Limit{core.PerHour(2)}, Timeout: 100 * time.Millisecond,
		OnStoreError: core.Fallback(memstore.New()),
	})
	exhaust := func() {
		t.Helper()
		redistest.WaitFor(t, "a refusal", func() error {
			if d := l.Allow(ctx, "k"); d.Allowed || d.Limit.Requests != 2 {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
	}
	exhaust()
	redistest.WaitFor(t, "a reset", func() error { return l.Reset(ctx, "k") })
	if d := l.Allow(ctx, "k"); !d.Allowed {
		t.Errorf("after a reset: %+v", d)
	}
	server.Kill()
	exhaust()
	if err := l.Reset(ctx, "k"); !errors.Is(err, core.ErrStore) {
		t.Errorf("a reset without Redis: %v", err)
	}
	if d := l.Allow(ctx, "k"); !d.Allowed || d.Err == nil {
		t.Errorf("after a reset of the fallback: %+v", d)
	}
	exhaust()
	server.Restart()
	redistest.WaitFor(t, "Redis to count again", func() error { return l.AllowN(ctx, "k", 0).Err })
	if d := l.Allow(ctx, "k"); !d.Allowed || d.Err != nil {
		t.Errorf("after the outage: got %+v, want an admission by Redis", d)
	}
}

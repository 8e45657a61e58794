package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// unsteady is a store that can be down.
type unsteady struct {
	core.Store
	down atomic.Bool
}

func (u *unsteady) Bind(r core.Rule) (core.Counts, error) {
	c, err := u.Store.Bind(r)
	return unsteadyCounts{c, u}, err
}

type unsteadyCounts struct {
	core.Counts
	store *unsteady
}

func (u unsteadyCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	if u.store.down.Load() {
		return core.Decision{}, errors.New("down")
	}
	return u.Counts.Take(ctx, ask)
}

// most is the most that any window in which an admission ends holds, of those
// that begin at from or later.
func most(admitted []time.Time, window time.Duration, from time.Time) (n int) {
	slices.SortFunc(admitted, time.Time.Compare)
	first := 0
	for i, at := range admitted {
		for !admitted[first].After(at.Add(-window)) {
			first++
		}
		if !at.Add(-window).Before(from) {
			n = max(n, i-first+1)
		}
	}
	return n
}

// TestFallbackBounds holds replicas that fail over together, and come back,
// against what core.Fallback promises of windows with a change in them, on a
// clock of the test's own.
func TestFallbackBounds(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	worst := map[string]int{}
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 21))
			replicas, limit := 1+rng.IntN(5), 1+rng.IntN(40)
			shares := replicas * max(1, limit/replicas)
			shared := &unsteady{Store: memstore.New()}
			var limiters []*core.Limiter
			for range replicas {
				limiters = append(limiters, limiter(t, core.Config{
					Store: shared, Limits: []core.Limit{core.Per(int64(limit), window)},
					OnStoreError: core.Fallback(memstore.New(), core.Share(replicas)),
				}))
			}
			var admitted []time.Time
			always := seed%2 == 0 // else a replica may not hear of a change back for a while
			drive := func(d time.Duration, all bool) {
				start := time.Now()
				for time.Since(start) < d {
					for _, l := range limiters {
						if !always && !all && rng.IntN(replicas*limit) > 0 {
							continue
						}
						if d := l.Allow(ctx, "k"); d.Allowed {
							admitted = append(admitted, d.At)
						}
					}
					all = false
					time.Sleep(time.Duration(rng.Int64N(int64(window) / int64(limit) / 2)))
				}
			}
			drive(time.Duration(rng.Int64N(int64(2*window))), false)
			for range 1 + rng.IntN(3) {
				failed := time.Now()
				shared.down.Store(true)
				drive(window+time.Duration(rng.Int64N(int64(window))), true)
				shared.down.Store(false)
				drive(2*window, false)
				if n := most(slices.Clone(admitted), window, time.Time{}); n > limit+shares {
					t.Errorf("seed %d: a window of %d, more than %d + %d", seed, n, limit, shares)
				}
				// Asked alike, the fallbacks admit alike; else one may have admitted nothing.
				without := max(shares, limit)
				if !always {
					without += shares - shares/replicas
				}
				if n := most(slices.Clone(admitted), window, failed); n > without {
					t.Errorf("seed %d: a window without the change to the fallback holds %d, more than %d", seed, n, without)
				}
				worst["of N"] = max(worst["of N"], 100*most(slices.Clone(admitted), window, time.Time{})/limit)
				// All is forgotten before the next.
				time.Sleep(window)
				admitted = nil
			}
		})
	}
	t.Logf("the worst window held %d %% of the limit", worst["of N"])
}

// TestFallbackReplicas: the same with four processes' worth of stores on a real
// Redis that is silent for a while.
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
	if n := most(admitted, window, time.Time{}); n > 2*limit {
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
	// Redis has forgotten; the fallback has not, and keeps the units back for a window.
	redistest.WaitFor(t, "Redis to count again", func() error { return l.AllowN(ctx, "other", 0).Err })
	if d := l.Allow(ctx, "k"); d.Allowed || d.Err != nil {
		t.Errorf("after the outage: %+v", d)
	}
	redistest.WaitFor(t, "a reset", func() error { return l.Reset(ctx, "k") })
	if d := l.Allow(ctx, "k"); !d.Allowed || d.Err != nil {
		t.Errorf("after a reset of both: %+v", d)
	}
}

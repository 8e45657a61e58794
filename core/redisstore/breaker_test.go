package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestHalfOpen: a server that stays silent is tried with one real decision at a
// time, which nobody waits for; once it answers, the next one closes the breaker.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	p := startProxy(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: p.addr()})
	t.Cleanup(func() { rdb.Close() })
	store := redisstore.New(rdb)
	const timeout = 200 * time.Millisecond
	l := closedFor(t, store, timeout)
	redistest.WaitFor(t, "a first decision", func() error { return l.AllowN(ctx, "k", 0).Err })
	p.mode.Store(silences)
	redistest.WaitFor(t, "the breaker to open", func() error {
		if err := l.Allow(ctx, "k").Err; !errors.Is(err, core.ErrUnavailable) {
			return err
		}
		return nil
	})
	before, start := p.scripts.Load(), time.Now()
	var waited, decisions atomic.Int64
	stop := load(20, func(int) {
		decisions.Add(1)
		if err := l.Allow(ctx, "k").Err; !errors.Is(err, core.ErrUnavailable) {
			waited.Add(1)
		}
		time.Sleep(time.Millisecond)
	})
	t.Cleanup(stop)
	redistest.WaitFor(t, "some trials", func() error {
		if n := p.scripts.Load() - before; n < 3 {
			return fmt.Errorf("%d scripts", n)
		}
		return nil
	})
	stop()
	scripts := p.scripts.Load() - before
	// Each takes the timeout and leaves the server in peace for a while. One may
	// have been on its way at the start, and one has just begun.
	if most := 2 + int64(time.Since(start)/timeout); scripts > most {
		t.Errorf("got %d scripts in %v, want at most %d", scripts, time.Since(start), most)
	}
	if waited.Load() > 0 {
		t.Errorf("%d of %d decisions waited", waited.Load(), decisions.Load())
	}
	p.mode.Store(passes)
	healed := time.Now()
	redistest.WaitFor(t, "the breaker to close", func() error { return l.Allow(ctx, "k").Err })
	t.Logf("%d decisions, %d of them sent; healed after %v", decisions.Load(), scripts, time.Since(healed))
}

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
			if !errors.Is(err, core.ErrUnavailable) || !mentions(err, "did not wait", server.Addr()+": READONLY") ||
				!strings.Contains(core.RemedyOf(err), "give the master's address") || strings.Count(err.Error(), "sash: ") != 1 {
				t.Fatalf("%s: %v; remedy: %s", name, err, core.RemedyOf(err))
			}
		}
		root.Do(ctx, "REPLICAOF", "NO", "ONE")
	}
}

// asked is a server that answers, and what asks it.
type asked struct {
	server  *redistest.Server
	rdb     *redis.Client
	store   *redisstore.Store
	limiter *core.Limiter
}

// TestNoBreakerEvent: what is not the server's fault does not speak against it.
func TestNoBreakerEvent(t *testing.T) {
	for name, test := range map[string]func(*testing.T, asked){
		"callers leave": func(t *testing.T, on asked) {
			on.server.Pause()
			defer on.server.Resume()
			var group sync.WaitGroup
			for i := range 50 {
				group.Go(func() {
					own, cancel := context.WithCancel(ctx)
					want := context.Canceled
					if i%2 == 0 {
						own, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
						want = context.DeadlineExceeded
					} else {
						time.AfterFunc(10*time.Millisecond, cancel)
					}
					defer cancel()
					if d := on.limiter.Allow(own, "k"); d.Allowed || d.Err != want {
						t.Errorf("%+v, want %v", d, want)
					}
				})
			}
			group.Wait()
		},
		"callers had left": func(t *testing.T, on asked) {
			own, cancel := context.WithCancel(ctx)
			cancel()
			n := calls(t, on.rdb, "evalsha")
			for range 50 {
				if d := on.limiter.Allow(own, "k"); d.Allowed || d.Err != context.Canceled {
					t.Errorf("%+v", d)
				}
			}
			if after := calls(t, on.rdb, "evalsha"); after != n {
				t.Errorf("%d scripts were sent", after-n)
			}
		},
		"NOSCRIPT": func(t *testing.T, on asked) {
			for range 50 {
				on.rdb.ScriptFlush(ctx)
				if d := on.limiter.Allow(ctx, "k"); d.Err != nil || !d.Allowed {
					t.Errorf("%+v", d)
				}
			}
		},
		"foreign values": func(t *testing.T, on asked) {
			for i := range 50 {
				client := fmt.Sprint("client ", i)
				key := redisstore.Keys(on.store, on.limiter, client)[0]
				if i%2 == 0 {
					on.rdb.Set(ctx, key, "a text", 0)
				} else {
					on.rdb.LPush(ctx, key, "an entry")
				}
				d := on.limiter.Allow(ctx, client)
				if !d.Allowed || !errors.Is(d.Err, core.ErrStore) || !mentions(d.Err, "sash:{...}:l1h0m0s") ||
					mentions(d.Err, "client") {
					t.Errorf("%+v", d)
				}
				if d := on.limiter.Allow(ctx, client); !d.Allowed || d.Err != nil {
					t.Errorf("replaced: %+v", d)
				}
			}
		},
		"a closed client": func(t *testing.T, on asked) {
			on.rdb.Close()
			for range 50 {
				if d := on.limiter.Allow(ctx, "k"); !d.Allowed || !errors.Is(d.Err, redis.ErrClosed) {
					t.Errorf("%+v", d)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			server := redistest.Start(t)
			rdb := server.Client(t)
			store := redisstore.New(rdb)
			l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1_000_000)}, Timeout: patient})
			if d := l.Allow(ctx, "first"); d.Err != nil {
				t.Fatal(d.Err)
			}
			test(t, asked{server, rdb, store, l})
			state, n := redisstore.BreakerState(store, ""), redisstore.BreakerFailures(store, "")
			if state != "closed" || n != 0 {
				t.Errorf("the breaker is %s after %d failures", state, n)
			}
		})
	}
}

// TestClose: decisions that are under way when the client is closed, and those
// that come after, get the policy.
func TestClose(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	store, err := redisstore.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	l := closedFor(t, store, patient)
	var counted atomic.Int64
	stop := load(20, func(int) {
		switch d := l.Allow(ctx, "k"); {
		case d.Err == nil && d.Allowed:
			counted.Add(1)
		case d.Allowed || !errors.Is(d.Err, core.ErrStore):
			t.Errorf("%+v", d)
		}
	})
	t.Cleanup(stop)
	redistest.WaitFor(t, "some decisions", func() error {
		if counted.Load() < 100 {
			return errors.New("too few")
		}
		return nil
	})
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if d := l.Allow(ctx, "k"); d.Allowed || !errors.Is(d.Err, redis.ErrClosed) {
		t.Errorf("after Close: %+v", d)
	}
	stop()
	if err := l.Reset(ctx, "k"); !errors.Is(err, core.ErrStore) {
		t.Errorf("Reset after Close: %v", err)
	}
}

// TestCloseWhileSilent: Close of the client ends, though a decision waits for a silent server: a program can stop.
// go-redis 9.19 waited for the server.
func TestCloseWhileSilent(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	p := startProxy(t, redistest.Start(t).Addr())
	store, err := redisstore.Open("redis://" + p.addr())
	if err != nil {
		t.Fatal(err)
	}
	l := closedFor(t, store, time.Hour)
	redistest.WaitFor(t, "a first decision", func() error { return l.AllowN(ctx, "k", 0).Err })
	p.mode.Store(silences)
	decided, closed := make(chan core.Decision, 1), make(chan error, 1)
	go func() { decided <- l.Allow(ctx, "k") }()
	redistest.WaitFor(t, "the reply to be lost", func() error {
		if p.lost.Load() == 0 {
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

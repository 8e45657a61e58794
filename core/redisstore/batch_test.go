//go:build !short

package redisstore_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/notice"
	"github.com/sashlimit/sash/internal/redistest"
)

// firstKeyProxy starts a proxy of as many servers as there are weights.
func firstKeyProxy(t *testing.T, weights ...int) (*redistest.FirstKey, []*redistest.Server) {
	servers := make([]*redistest.Server, len(weights))
	for i := range servers {
		servers[i] = redistest.Start(t)
	}
	return redistest.StartFirstKey(t, servers, weights...), servers
}

// storeAt returns a store on a client for a single server.
func storeAt(t *testing.T, addr string, options ...redisstore.Option) *redisstore.Store {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { rdb.Close() })
	return redisstore.New(rdb, options...)
}

// admits fails the test unless each of ten clients that many goroutines ask for, twice as often as it may, is admitted
// limit times.
func admits(t *testing.T, l *core.Limiter, limit int) {
	t.Helper()
	var admitted [10]atomic.Int64
	var next atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(2*limit*len(admitted)); i = next.Add(1) {
				client := i % int64(len(admitted))
				switch d := l.Allow(ctx, fmt.Sprint("client ", client)); {
				case d.Err != nil:
					t.Error(d.Err)
				case d.Allowed:
					admitted[client].Add(1)
				}
			}
		})
	}
	all.Wait()
	for client := range admitted {
		if n := admitted[client].Load(); n != int64(limit) {
			t.Errorf("client %d: %d admitted of %d", client, n, limit)
		}
	}
}

// TestFirstKeyProxy: behind a proxy that sends a script to the server of its first key each client has its limit, not
// more, from the first request on, and gets back what is returned or reset; a notice says so once, and so does Check.
func TestFirstKeyProxy(t *testing.T) {
	t.Parallel()
	const limit = 200
	var limits []core.Limit // the first decides, and the others count the same
	for i, a := range core.Algorithms() {
		limits = append(limits, core.Per(int64(limit*(1+i)), core.MaxWindow).Using(a).Named(a.String()))
	}
	for name, weights := range map[string][]int{"two": {1, 1}, "four, unequal": {1, 2, 7, 40}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			proxy, servers := firstKeyProxy(t, weights...)
			opened, err := redisstore.Open("redis://" + proxy.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			heard := make(notices, 10)
			for i, store := range []*redisstore.Store{storeAt(t, proxy.Addr()), opened} {
				l := limiter(t, core.Config{Name: fmt.Sprint("api ", i), Store: store, Timeout: patient,
					Limits: limits, Observer: heard})
				admits(t, l, limit)
				select {
				case n := <-heard:
					if n.Code != notice.FirstKeyProxy || n.Name != l.Name() || !strings.Contains(n.Text, proxy.Addr()) {
						t.Errorf("the notice is %+v", n)
					}
				case <-time.After(patient):
					t.Error("no notice")
				}
				if err := store.Check(ctx); err != nil {
					t.Errorf("Check: %v", err)
				}
				for client := range 10 {
					key := fmt.Sprint("client ", client)
					if err := l.Reset(ctx, key); err != nil {
						t.Error(err)
					}
					r := l.Reserve(ctx, core.Request{Key: key, Cost: 4})
					if err := r.Settle(ctx, 1); err != nil || r.Decision.Err != nil {
						t.Errorf("%+v, %v", r.Decision, err)
					}
					if uses, err := l.Usage(ctx, key); err != nil || uses[0].Used != 1 {
						t.Errorf("client %d, after a reset and a request of 1: %+v, %v", client, uses, err)
					}
				}
			}
			if len(heard) > 0 {
				t.Errorf("told again: %+v", <-heard)
			}
			for _, server := range servers { // then what is sent together goes on alone
				defer redistest.Forgets.Begin(t, server)()
			}
			mixed := proxy.Mixed.Load()
			late := limiter(t, core.Config{Name: "late", Store: opened, Timeout: patient, Limits: limits})
			if admits(t, late, limit); proxy.Mixed.Load() != mixed {
				t.Errorf("%d scripts more had keys of several clients", proxy.Mixed.Load()-mixed)
			}
			t.Logf("proved: %s: each client was admitted %d times, by %d scripts for several clients",
				t.Name(), limit, mixed)
		})
	}
}

// TestMixedScripts: where a proxy takes no keys of several clients, limits hold, every decision is made, and few
// scripts try; none does with WithoutSharedScripts, which needs no notice.
func TestMixedScripts(t *testing.T) {
	t.Parallel()
	const limit = 100
	for name, mode := range map[string]int32{
		"refused": redistest.MixedRefused, "cut": redistest.MixedCut, "silent": redistest.MixedSilent,
		"WithoutSharedScripts": redistest.MixedPass,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, _ := firstKeyProxy(t, 1, 1)
			proxy.Mode.Store(mode)
			least, options := int64(1), []redisstore.Option(nil)
			if mode == redistest.MixedPass {
				least, options = 0, []redisstore.Option{redisstore.WithoutSharedScripts()}
			}
			store, heard := storeAt(t, proxy.Addr(), options...), make(notices, 10)
			l := limiter(t, core.Config{Store: store, Timeout: patient, Limits: []core.Limit{core.PerDay(limit)},
				Observer: heard})
			began := time.Now()
			admits(t, l, limit)
			most := least * (2 + int64(time.Since(began).Seconds()))
			if n := proxy.Mixed.Load(); n < least || n > most {
				t.Errorf("%d scripts tried, want %d to %d", n, least, most)
			}
			if err := store.Check(ctx); err != nil || len(heard) > 0 {
				t.Errorf("Check: %v; %d notices", err, len(heard))
			}
		})
	}
}

// TestJoined: on a single server the keys of several clients go in one script once a probe has seen that they may, and
// nothing stays of it. Where the only connection would be kept from decisions there is no probe.
func TestJoined(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for size, want := range map[int]bool{10: true, 1: false} {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: size})
		defer rdb.Close()
		store := redisstore.New(rdb)
		l := limiter(t, core.Config{Name: fmt.Sprint(size), Store: store, Timeout: patient,
			Limits: []core.Limit{core.PerDay(100)}})
		admits(t, l, 100)
		// A probe that cannot tell is repeated.
		stop := load(8, func(i int) { l.Allow(ctx, fmt.Sprint("client ", i%100)) })
		defer stop()
		redistest.WaitFor(t, "the store to join requests", func() error {
			before := store.Stats()
			admits(t, core.Must(l.Rule(fmt.Sprint("again ", time.Now()), core.PerDay(10))), 10)
			after := store.Stats()
			if got := after.Scripts-before.Scripts < after.BatchRequests-before.BatchRequests; got != want {
				return fmt.Errorf("a pool of %d: shared scripts: %v", size, got)
			}
			return nil
		})
		// The clients that share scripts by now have their limits too.
		admits(t, core.Must(l.Rule("later", core.PerDay(100))), 100)
	}
	redistest.WaitFor(t, "the probe to delete its clients", func() error {
		keys, err := admin(t, server.Addr()).Keys(ctx, "*redisstore.*").Result()
		if len(keys) > 0 {
			err = fmt.Errorf("%d keys are left", len(keys))
		}
		return err
	})
}

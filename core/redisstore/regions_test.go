package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/regions"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// late is a connection to another region: what is sent takes a round trip.
type late struct {
	net.Conn
	by time.Duration
}

func (c late) Write(b []byte) (int, error) {
	time.Sleep(c.by)
	return c.Conn.Write(b)
}

var regionLimit = core.Per(60, time.Second)

// regionLimiter returns the limiter of a process in a region, and what is between it and the other regions.
func regionLimiter(t *testing.T, here string, addrs map[string]string, strict bool) (*core.Limiter, []*proxy) {
	var between []*proxy
	stores := map[string]core.Store{}
	for name, addr := range addrs {
		options := &redis.Options{Addr: addr}
		if name != here {
			p := startProxy(t, addr)
			between = append(between, p)
			options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, p.addr())
				return late{conn, 50 * time.Millisecond}, err
			}
		}
		rdb := redis.NewClient(options)
		t.Cleanup(func() { rdb.Close() })
		stores[name] = redisstore.New(rdb)
	}
	store, err := regions.New(regions.Config{Here: here, Stores: stores, Strict: strict})
	if err != nil {
		t.Fatal(err)
	}
	return core.Must(core.New(core.Config{
		Name: "api", Store: store, Limits: []core.Limit{regionLimit}, Timeout: 500 * time.Millisecond,
		OnStoreError: core.FailClosed, Observer: core.Silent,
	})), between
}

// TestRegions: three servers, with 50 ms between them, of which the replies are lost and connections cut at random.
// By the servers' own times, strict regions together never admit more than the limit in a window. Eventual ones go on
// deciding.
func TestRegions(t *testing.T) {
	for _, strict := range []bool{true, false} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			t.Parallel()
			limit := regionLimit
			names := []string{"ap", "eu", "us"}
			addrs := map[string]string{}
			for _, name := range names {
				addrs[name] = redistest.Start(t, "--save", "").Addr()
			}
			var proxies []*proxy
			var all recorder
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			var group sync.WaitGroup
			for _, here := range names {
				l, between := regionLimiter(t, here, addrs, strict)
				proxies = append(proxies, between...)
				group.Go(func() { all.ask(ctx, l) })
			}
			for rng := rand.New(rand.NewPCG(1, 26)); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
				proxies[rng.IntN(len(proxies))].mode.Store([]int32{passes, passes, cuts, silences}[rng.IntN(4)])
			}
			group.Wait()
			t.Logf("%d admitted, %d of them by another region", len(all.admitted), all.far)
			if len(all.admitted) < 3*int(limit.Requests) || strict == (all.far == 0) {
				t.Errorf("%d admitted, %d by another region: too few to prove anything", len(all.admitted), all.far)
			}
			if err := storetest.CheckLogs(all.admitted, limit); strict && err != nil {
				t.Error(err)
			}
		})
	}
}

// recorder keeps admissions by the servers' times.
type recorder struct {
	mu       sync.Mutex
	admitted []storetest.Outcome
	far      int
}

// ask asks in bursts until ctx ends, each region for more than its share.
func (r *recorder) ask(ctx context.Context, l *core.Limiter) {
	first := ""
	var group sync.WaitGroup
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		group.Go(func() {
			d := l.Allow(context.Background(), "client")
			r.mu.Lock()
			defer r.mu.Unlock()
			if !d.Allowed {
				return
			}
			if first == "" {
				first = d.Region
			}
			if d.Region != first {
				r.far++
			}
			r.admitted = append(r.admitted, storetest.Outcome{At: d.At, Allowed: true, Cost: 1})
		})
	}
	group.Wait()
}

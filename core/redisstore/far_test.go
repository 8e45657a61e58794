package redisstore_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// distant is a store at the end of ways that take a time.
type distant struct {
	*testing.T
	trip time.Duration // there and back
	ways []*redistest.Way
}

// way returns a way to a server, of which each direction takes half of a round trip.
func (f *distant) way(addr string) string {
	w := redistest.StartWay(f, addr, func() time.Duration { return f.trip / 2 })
	f.ways = append(f.ways, w)
	return w.Addr()
}

// dial connects to a server by the way there, after a round trip as TCP has it.
func (f *distant) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-time.After(f.trip):
		return redistest.Dial(f.ways...)(ctx, network, addr)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open returns a store of a kind.
func (f *distant) open(kind string) *redisstore.Store {
	var rdb redis.UniversalClient
	o := &redis.Options{Dialer: f.dial}
	switch kind {
	case "Open":
		store, err := redisstore.Open("redis://" + f.way(redistest.Start(f).Addr()))
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { store.Close() })
		return store
	case "Client", "one connection", "own type", "MinIdleConns":
		o.Addr = redistest.Start(f).Addr()
		switch kind {
		case "one connection":
			o.PoolSize = 1
		case "MinIdleConns":
			o.MinIdleConns = 4
		}
		f.way(o.Addr)
		rdb = redis.NewClient(o)
		if kind == "own type" {
			rdb = another{rdb}
		}
	case "password":
		o.Addr = redistest.Start(f, "--requirepass", "secret").Addr()
		o.Password, o.DB, o.ClientName = "secret", 3, "far"
		f.way(o.Addr)
		rdb = redis.NewClient(o)
	case "TLS":
		ca := newAuthority(f.T)
		ca.issue(f.T, "redis.internal")
		port, err := redistest.FreePort()
		if err != nil {
			f.Fatal(err)
		}
		redistest.Start(f, "--tls-port", fmt.Sprint(port), "--tls-ca-cert-file", ca.file("ca.pem"),
			"--tls-cert-file", ca.file("redis.internal.pem"), "--tls-key-file", ca.file("redis.internal.key"),
			"--tls-auth-clients", "no")
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		o.Addr = f.way(net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
		o.Dialer, o.TLSConfig = nil, &tls.Config{RootCAs: roots, ServerName: "redis.internal", MinVersion: tls.VersionTLS12}
		rdb = redis.NewClient(o)
	case "Ring":
		addrs := map[string]string{}
		for i := range 2 {
			addrs[fmt.Sprint(i)] = redistest.Start(f).Addr()
			f.way(addrs[fmt.Sprint(i)])
		}
		rdb = redis.NewRing(&redis.RingOptions{Addrs: addrs, Dialer: f.dial})
	case "Cluster":
		cluster := redistest.StartCluster(f, 3, 0)
		for _, addr := range cluster.Addrs() {
			f.way(addr)
		}
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: f.dial})
	case "Sentinel":
		sentinel := redistest.StartSentinel(f, 1, 3)
		f.way(sentinel.WaitOK(f).Addr())
		rdb = sentinel.Client(f, func(o *redis.FailoverOptions) {
			for _, addr := range o.SentinelAddrs {
				f.way(addr)
			}
			o.Dialer = f.dial
		})
	}
	f.Cleanup(func() { rdb.Close() })
	return redisstore.New(rdb)
}

// TestFarStore: a store that is far away is reached as soon as the network allows, though a new connection takes longer
// than a request may wait: from rest, and after all connections broke, as they do when the server restarts, or has
// closed them after an hour. From then on each request is decided. Run it with -v for what a user with a far store
// needs to know.
func TestFarStore(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		kind          string
		trip, timeout time.Duration
		trips         int // until the first decision, at most; without a busy machine it is the half
	}{
		{"Client", 20 * ms, 0, 14}, {"Client", 50 * ms, 500 * ms, 14}, {"Client", 150 * ms, 500 * ms, 14},
		{"Open", 100 * ms, 450 * ms, 14}, {"one connection", 100 * ms, 450 * ms, 14},
		{"own type", 100 * ms, 450 * ms, 14}, {"MinIdleConns", 100 * ms, 450 * ms, 14},
		{"password", 100 * ms, 450 * ms, 16}, {"TLS", 100 * ms, 450 * ms, 16}, {"Ring", 100 * ms, 450 * ms, 14},
		{"Cluster", 100 * ms, 450 * ms, 20}, {"Sentinel", 100 * ms, 450 * ms, 28},
	} {
		t.Run(fmt.Sprint(c.kind, " ", c.trip), func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			f := &distant{T: t, trip: c.trip}
			store := f.open(c.kind)
			l := limiter(t, core.Config{
				Store: store, Limits: []core.Limit{core.PerHour(100_000)}, Timeout: c.timeout, Observer: core.Silent,
			})
			alone := c.kind == "own type" // each request needs a connection of its own
			f.reach(l, "from rest", c.trips, 32, alone)
			for _, w := range f.ways {
				w.Lose()
			}
			// Of one client: the other masters of a cluster are reached when requests come to them.
			f.reach(l, "after all connections broke", c.trips, 1, alone)
		})
	}
}

// reach makes a request of some clients every 50 ms until one is decided, and then others, of which nearly all must be:
// some at the same pace, and a burst, unless each goes alone.
func (f *distant) reach(l *core.Limiter, what string, trips, clients int, alone bool) {
	f.Helper()
	const before, paced, burst = 100, 8, 32
	start, reached := time.Now(), make(chan time.Duration, before+20*(paced+burst))
	var failed atomic.Int64
	var group sync.WaitGroup
	request := func(i int, after bool) {
		group.Go(func() {
			switch d := l.Allow(ctx, fmt.Sprint("client ", i%clients)); {
			case d.Err == nil:
				reached <- time.Since(start)
			case after:
				failed.Add(1)
			}
		})
	}
	var took time.Duration
	for i := 0; i < before && took == 0; i++ {
		request(i, false)
		select {
		case took = <-reached:
		case <-time.After(50 * time.Millisecond):
		}
	}
	if took == 0 || took > time.Duration(trips)*f.trip+time.Second {
		f.Fatalf("%s: the first decision after %v, want one within %d round trips", what, took, trips)
	}
	f.Logf("proved: %s, %s: the first decision after %.1f round trips of %v", f.Name(), what,
		float64(took)/float64(f.trip), f.trip)
	group.Wait()
	for range 20 { // a busy machine may stop this process for longer than the requests have
		failed.Store(0)
		for i := range paced {
			request(i, true)
			time.Sleep(50 * time.Millisecond)
		}
		if !alone {
			for i := range burst {
				request(i, true)
			}
		}
		if group.Wait(); failed.Load() <= (paced+burst)/10 {
			return
		}
	}
	f.Errorf("%s: %d of %d requests failed after the first decision", what, failed.Load(), paced+burst)
}

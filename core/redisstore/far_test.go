//go:build !short

package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
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
	case "TLS":
		_, addr, config := startTLS(f)
		o.Addr, o.Dialer, o.TLSConfig = f.way(addr), nil, config
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
	default:
		var args []string
		switch kind {
		case "one connection":
			o.PoolSize = 1
		case "MinIdleConns":
			o.MinIdleConns = 4
		case "password":
			o.Password, o.DB, o.ClientName, args = "secret", 3, "far", []string{"--requirepass", "secret"}
		}
		o.Addr = redistest.Start(f, args...).Addr()
		f.way(o.Addr)
		if rdb = redis.NewClient(o); kind == "own type" {
			rdb = another{rdb}
		}
	}
	f.Cleanup(func() { rdb.Close() })
	return redisstore.New(rdb)
}

// TestFarStore: a store that is far away is reached, though a new connection takes longer than a request may wait: from
// rest, and after all connections broke, as they do when the server restarts, or has closed them after an hour. From
// then on each request is decided. Run it with -v for what a user with a far store needs to know.
func TestFarStore(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		kind          string
		trip, timeout time.Duration
	}{
		{"Client", 20 * ms, 0}, {"Client", 150 * ms, 500 * ms}, {"Open", 150 * ms, 500 * ms},
		{"one connection", 100 * ms, 450 * ms}, {"own type", 100 * ms, 450 * ms}, {"MinIdleConns", 100 * ms, 450 * ms},
		{"password", 150 * ms, 500 * ms}, {"TLS", 150 * ms, 500 * ms}, {"Ring", 150 * ms, 500 * ms},
		{"Cluster", 150 * ms, 500 * ms}, {"Sentinel", 150 * ms, 500 * ms},
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
			f.reach(l, "from rest", 32, alone)
			for _, w := range f.ways {
				w.Lose()
			}
			// Of one client: the other masters of a cluster are reached when requests come to them.
			f.reach(l, "after all connections broke", 1, alone)
		})
	}
}

// reach makes a request of some clients every 50 ms until one is decided, and then others, of which nearly all must be:
// some at the same pace, and a burst, unless each goes alone.
func (f *distant) reach(l *core.Limiter, what string, clients int, alone bool) {
	f.Helper()
	const before, paced, burst = 200, 8, 32 // before: 10 s
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
	if took == 0 {
		f.Fatalf("%s: no decision within 10 s", what)
	}
	f.Logf("proved: %s, %s: %.1f round trips", f.Name(), what, float64(took)/float64(f.trip))
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

// startTLS starts a server that serves TLS at an address too, and returns what a client is configured by. One
// certificate is that of the server and of the client, and of the authority that has signed both.
func startTLS(t testing.TB) (server *redistest.Server, addr string, client *tls.Config) {
	t.Helper()
	key := core.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"redis.internal"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := core.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	files := filepath.Join(t.TempDir(), "cert.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.Block{Type: "PRIVATE KEY", Bytes: core.Must(x509.MarshalPKCS8PrivateKey(key))}
	if err := os.WriteFile(files, append(text, pem.EncodeToMemory(&private)...), 0o600); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	port := fmt.Sprint(core.Must(redistest.FreePort()))
	server = redistest.Start(t, "--tls-port", port, "--tls-ca-cert-file", files, "--tls-cert-file", files,
		"--tls-key-file", files)
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return server, "127.0.0.1:" + port, &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{own}, ServerName: "redis.internal",
		MinVersion: tls.VersionTLS12,
	}
}

// TestTLS: a client as docs/redis.md has it counts on a real server over TLS, as the user of
// docs/operations.md, with a certificate where the server asks for one. Check tells why it
// cannot count otherwise.
func TestTLS(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server, addr, config := startTLS(t)
	root := admin(t, server.Addr())
	if err := root.Do(ctx, documentedACL(t)...).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		asks string // tls-auth-clients
		set  func(*tls.Config)
		says string // nothing: all is well
	}{
		{"without a certificate", "no", func(c *tls.Config) { c.Certificates = nil }, ""},
		{"with a certificate", "yes", func(*tls.Config) {}, ""},
		// Up to TLS 1.2 a client hears of it before it sends a command.
		{"the certificate is missing", "yes", func(c *tls.Config) {
			c.Certificates, c.MaxVersion = nil, tls.VersionTLS12
		}, "Certificates"},
		{"another authority", "no", func(c *tls.Config) { c.RootCAs = nil }, "unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := root.ConfigSet(ctx, "tls-auth-clients", c.asks).Err(); err != nil {
				t.Fatal(err)
			}
			own := config.Clone()
			c.set(own)
			rdb := redis.NewClient(&redis.Options{Addr: addr, Username: "api", Password: "password", TLSConfig: own})
			defer rdb.Close()
			store := redisstore.New(rdb)
			l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(100)}, Timeout: patient})
			err, d := store.Check(ctx), l.Allow(ctx, "k")
			if bad := c.says != ""; bad != (err != nil) || bad != (d.Err != nil) || bad && !mentions(err, c.says) {
				t.Errorf("Check says %v, want %q; a decision says %v", err, c.says, d.Err)
			}
		})
	}
}

//go:build !short

package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// scene is a server, a stock client of it through a proxy, and one store on it
// with a limiter for each policy.
type scene struct {
	*testing.T
	server                 *redistest.Server
	admin                  *redis.Client
	proxy                  *redistest.Way
	rdb                    *redis.Client
	store                  *redisstore.Store
	open, closed, fallback *core.Limiter
	patiently              *core.Limiter // waits for an answer, however busy the machine is
}

// fault is something that goes wrong with a server. begin makes it so and
// returns what ends it.
type fault struct {
	name    string
	options func(*redis.Options)
	begin   func(s *scene) (end func())
	says    string        // in the error of some decision
	timeout time.Duration // of the limiters, where the server says nothing
	opens   bool          // the breaker
	either  bool          // it may open, when the machine is slow
}

// breaks returns what makes a fault of the server.
func breaks(f redistest.Fault) func(*scene) func() {
	return func(s *scene) func() { return f.Begin(s, s.server) }
}

// losing returns what has the replies to scripts lost.
func losing(mode int32) func(*scene) func() {
	return func(s *scene) func() {
		s.proxy.Mode.Store(mode)
		return func() { s.proxy.Mode.Store(redistest.Passes) }
	}
}

const short = 30 * time.Millisecond

var faults = []fault{
	{
		name: "connection refused", says: "no answer within the timeout", opens: true, timeout: short,
		begin:   breaks(redistest.Refused),
		options: func(o *redis.Options) { o.Dialer = nil }, // straight to the server
	},
	{
		name: "silent server", says: "no answer within the timeout", opens: true, timeout: short,
		begin: breaks(redistest.Silent),
	},
	{
		name: "reply lost after the script ran", says: "the connection to Redis broke: EOF", opens: true,
		begin: losing(redistest.CutsInstead),
	},
	{
		name: "reply late after the script ran", says: "no answer within the timeout", opens: true, timeout: short,
		begin: losing(redistest.StaysSilent),
	},
	{
		name: "READONLY", says: "READONLY", opens: true, begin: breaks(redistest.Replica),
	},
	{
		name: "BUSY", says: "BUSY", either: true, begin: breaks(redistest.Busy),
	},
	{
		name: "OOM", says: "OOM", begin: breaks(redistest.Full),
	},
	{
		name: "pool exhausted", says: "no answer within the timeout", opens: true, timeout: short,
		options: func(o *redis.Options) { o.PoolSize = 2 },
		begin: func(s *scene) func() {
			// Newer versions of go-redis have other connections for pipelines.
			if shared, err := redisstore.CanShareScripts(s.store); !shared {
				s.Fatal(err)
			}
			freed := make(chan error, 2)
			for range cap(freed) {
				go func() { freed <- s.rdb.BLPop(ctx, 0, "never").Err() }()
			}
			redistest.WaitFor(s, "the connection to be taken", func() error {
				if info := s.admin.Info(ctx, "clients").Val(); !strings.Contains(info, "blocked_clients:2") {
					return errors.New(info)
				}
				return nil
			})
			return func() {
				do(s, s.admin, "RPUSH never value value")
				<-freed
				<-freed
			}
		},
	},
}

func newScene(t *testing.T, f fault) *scene {
	s := &scene{T: t, server: redistest.Start(t)}
	s.admin = redis.NewClient(&redis.Options{Addr: s.server.Addr(), DisableIdentity: true, PoolSize: 1})
	t.Cleanup(func() { s.admin.Close() })
	s.proxy = redistest.StartWay(t, s.server.Addr(), nil)
	o := &redis.Options{Addr: s.server.Addr(), Dialer: redistest.Dial(s.proxy)}
	if f.options != nil {
		f.options(o)
	}
	s.rdb = redis.NewClient(o)
	t.Cleanup(func() { s.rdb.Close() })
	s.store = redisstore.New(s.rdb)
	if f.timeout == 0 {
		f.timeout = patient
	}
	limits := []core.Limit{core.PerHour(100_000), core.PerHour(100_000).Using(core.SlidingCounter).Named("counter")}
	s.open = limiter(t, core.Config{Store: s.store, Limits: limits, Timeout: f.timeout})
	s.patiently = limiter(t, core.Config{Store: s.store, Limits: limits, Timeout: patient})
	s.closed = s.open.WithPolicy(core.FailClosed)
	s.fallback = s.open.WithPolicy(core.Fallback(memstore.New(), 1000))
	s.counted("a first decision")
	return s
}

// counted waits until a decision is counted in Redis again.
func (s *scene) counted(what string) {
	s.Helper()
	redistest.WaitFor(s, what, func() error { return s.patiently.AllowN(ctx, "warm up", 0).Err })
}

// TestFaults: whatever is wrong with Redis, a decision gets the policy, the
// script is sent at most once for each, servers that cannot decide are left in
// peace, nothing is left behind, and all heals by itself.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			s := newScene(t, f)
			before := s.proxy.Scripts.Load()
			end := sync.OnceFunc(f.begin(s))
			t.Cleanup(end) // also if the test fails

			const callers, each = 200, 3
			var said, refusedAtOnce atomic.Int64
			var other atomic.Value // another text
			var group sync.WaitGroup
			for i := range callers {
				key := fmt.Sprint("client ", i%50)
				group.Go(func() {
					for range each {
						for _, l := range []*core.Limiter{s.open, s.closed, s.fallback} {
							d := l.Allow(ctx, key)
							if d.Allowed == (l == s.closed) || !errors.Is(d.Err, core.ErrStore) ||
								(d.Limit.Requests == 100) != (l == s.fallback) {
								t.Errorf("%+v", d)
							}
							switch text := fmt.Sprint(d.Err); {
							case errors.Is(d.Err, core.ErrUnavailable):
								refusedAtOnce.Add(1)
							case strings.Contains(text, f.says):
								said.Add(1)
							default:
								other.Store(text)
							}
						}
					}
				})
			}
			group.Wait()
			if said.Load() == 0 {
				t.Errorf("no error says %q, but %v", f.says, other.Load())
			}
			if f.opens {
				// One at a time tries the server; nothing closes the breaker.
				waitOpen(t, s.closed, "late")
				for range 20 {
					if d := s.closed.Allow(ctx, "late"); !errors.Is(d.Err, core.ErrUnavailable) {
						t.Errorf("the breaker let through: %v", d.Err)
					}
				}
			}
			closed := s.store.Stats().Breakers[0].State == redisstore.StateClosed
			if !f.either && (closed == f.opens || !f.opens && refusedAtOnce.Load() > 0) {
				t.Errorf("the breaker is closed: %v, %d did not wait; %v", closed, refusedAtOnce.Load(), other.Load())
			}

			end()
			s.counted("a counted decision after the fault")
			if d := s.patiently.Allow(ctx, "new"); d.Err != nil || !d.Allowed {
				t.Errorf("after the fault: %+v", d)
			}
			redistest.WaitFor(t, "connections to settle", func() error {
				n, err := connections(s.admin)
				if err != nil || n > 2*s.rdb.Options().PoolSize+2 { // go-redis 9.23 has as many for pipelines
					return fmt.Errorf("%d connections, %v", n, err)
				}
				return nil
			})

			decisions, scripts := callers*each*3+20, int(s.proxy.Scripts.Load()-before)
			if scripts > decisions+1000 { // with those of WaitFor
				t.Errorf("%d scripts for %d decisions", scripts, decisions)
			}
		})
	}
}

// TestAtMostOneCharge: hundreds of replies are lost after the script has run,
// through clients that by default would send it again. What is charged is what
// was delivered, and no decision was delivered twice.
func TestAtMostOneCharge(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Client", "ClusterClient", "Ring"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
			if name == "ClusterClient" {
				servers = redistest.StartCluster(t, 3, 0).Servers
			}
			var proxies []*redistest.Way
			o := &redis.UniversalOptions{}
			for _, s := range servers {
				proxies, o.Addrs = append(proxies, redistest.StartWay(t, s.Addr(), nil)), append(o.Addrs, s.Addr())
			}
			o.Dialer = redistest.Dial(proxies...)
			var rdb redis.UniversalClient
			switch name {
			case "Client":
				rdb = redis.NewClient(o.Simple())
			case "ClusterClient":
				rdb = redis.NewClusterClient(o.Cluster())
			case "Ring":
				addrs := map[string]string{"a": o.Addrs[0], "b": o.Addrs[1]}
				rdb = redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: time.Hour, Dialer: o.Dialer})
			}
			t.Cleanup(func() { rdb.Close() })
			atMostOneCharge(t, rdb, proxies...)
		})
	}
}

func atMostOneCharge(t *testing.T, rdb redis.UniversalClient, proxies ...*redistest.Way) {
	store := redisstore.New(rdb)
	count := func() (delivered, lost int) {
		for _, p := range proxies {
			delivered += int(p.Keys.Load()) // a script may decide several requests
			lost += int(p.Lost.Load())
		}
		return delivered, lost
	}
	patiently, hastily := closedFor(t, store, patient), closedFor(t, store, 50*time.Millisecond)

	// A key for each worker, on all masters of a cluster; each server knows the script.
	const workers = 20
	key := func(i int) string { return fmt.Sprint("client ", i) }
	for i := range workers {
		redistest.WaitFor(t, "a first decision", func() error { return patiently.AllowN(ctx, key(i), 0).Err })
		redistest.WaitFor(t, "a second decision", func() error { return patiently.AllowN(ctx, key(i), 0).Err })
	}
	redisstore.HoldBreakersClosed(store)
	if _, single := rdb.(*redis.Client); single {
		if shared, err := redisstore.CanShareScripts(store); err != nil || !shared {
			t.Fatal(shared, err)
		}
	}
	before, _ := count()

	decisions := 0
	for _, mode := range []struct {
		lose   int32
		by     *core.Limiter
		enough int
	}{
		{redistest.CutsInstead, patiently, 290},
		{redistest.StaysSilent, hastily, 10}, // each holds a connection for as long as the client's own timeout
	} {
		_, earlier := count()
		for _, p := range proxies {
			p.Mode.Store(mode.lose)
		}
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range workers {
			group.Go(func() {
				for {
					if _, lost := count(); lost-earlier >= mode.enough {
						return
					}
					d := mode.by.Allow(ctx, key(i))
					mu.Lock()
					decisions++
					if d.Allowed || !errors.Is(d.Err, core.ErrStore) {
						t.Errorf("a decision whose reply was lost: %+v", d)
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		for _, p := range proxies {
			p.Mode.Store(redistest.Passes)
		}
	}
	redistest.WaitFor(t, "calls without a caller to end", func() error {
		if n := rdb.PoolStats(); n.TotalConns > n.IdleConns {
			return fmt.Errorf("%d connections of %d are idle", n.IdleConns, n.TotalConns)
		}
		return nil
	})
	delivered, lost := count()
	delivered -= before
	if delivered > decisions || lost < 300 {
		t.Errorf("%d requests delivered for %d decisions, %d replies lost", delivered, decisions, lost)
	}
	charged := 0
	for i := range workers {
		n, err := rdb.LLen(ctx, redisstore.Keys(store, patiently, key(i))[0]).Result()
		if err != nil {
			t.Fatal(err)
		}
		charged += int(n)
	}
	if charged != delivered {
		t.Errorf("%d charges, %d requests delivered", charged, delivered)
	}

	// What is given back is sent once too.
	var r *core.Reservation
	redistest.WaitFor(t, "a unit to be counted", func() error {
		r = patiently.Reserve(ctx, core.Request{Key: key(0), Cost: 1})
		return r.Decision.Err
	})
	for _, p := range proxies {
		p.Mode.Store(redistest.CutsInstead)
	}
	before, _ = count()
	n, err := r.Return(ctx, 1)
	if after, _ := count(); n != 0 || err == nil || after != before+1 {
		t.Errorf("a Return whose reply was lost, delivered %d times: %d, %v", after-before, n, err)
	}
}

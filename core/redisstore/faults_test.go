package redisstore_test

import (
	"errors"
	"fmt"
	"math/big"
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
	kills   bool          // the data are lost
	scripts bool          // they run, and only the replies are lost
}

// run runs commands of the administrator.
func (s *scene) run(commands ...string) {
	s.Helper()
	for _, c := range commands {
		var args []any
		for _, a := range strings.Fields(c) {
			args = append(args, a)
		}
		if err := s.admin.Do(ctx, args...).Err(); err != nil {
			s.Fatalf("%s: %v", c, err)
		}
	}
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
		name: "connection refused", says: "no answer within the timeout", opens: true, kills: true, timeout: short,
		begin:   breaks(redistest.Refused),
		options: func(o *redis.Options) { o.Dialer = nil }, // straight to the server
	},
	{
		name: "silent server", says: "no answer within the timeout", opens: true, timeout: short,
		begin: breaks(redistest.Silent),
	},
	{
		name: "reply lost after the script ran", says: "the connection to Redis broke: EOF", opens: true, scripts: true,
		begin: losing(redistest.CutsInstead),
	},
	{
		name: "reply late after the script ran", says: "no answer within the timeout", opens: true, timeout: short,
		begin: losing(redistest.StaysSilent), scripts: true,
	},
	{
		name: "READONLY", says: "READONLY", opens: true, kills: true, begin: breaks(redistest.Replica),
	},
	{
		name: "BUSY", says: "BUSY", either: true, begin: breaks(redistest.Busy),
	},
	{
		name: "OOM", says: "OOM", begin: breaks(redistest.Full),
	},
	{
		name: "pool exhausted", says: "no answer within the timeout", opens: true, timeout: short,
		options: func(o *redis.Options) { o.PoolSize = 1 },
		begin: func(s *scene) func() {
			freed := make(chan error, 1)
			go func() { freed <- s.rdb.BLPop(ctx, 0, "never").Err() }()
			redistest.WaitFor(s, "the connection to be taken", func() error {
				if info := s.admin.Info(ctx, "clients").Val(); !strings.Contains(info, "blocked_clients:1") {
					return errors.New(info)
				}
				return nil
			})
			return func() {
				s.run("RPUSH never value")
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
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			s := newScene(t, f)
			before := s.proxy.Scripts.Load()
			end := f.begin(s)
			// Ended once, also if the test fails.
			end = sync.OnceFunc(end)
			t.Cleanup(end)

			const callers, each = 200, 3
			var said, refusedAtOnce, onTheirOwn atomic.Int64
			var other atomic.Value // the text of one of the others
			var group sync.WaitGroup
			for i := range callers {
				key := fmt.Sprint("client ", i%50)
				group.Go(func() {
					for range each {
						for _, c := range []struct {
							name    string
							l       *core.Limiter
							allowed bool
							counts  bool
						}{{"open", s.open, true, false}, {"closed", s.closed, false, false}, {"fallback", s.fallback, true, true}} {
							d := c.l.Allow(ctx, key)
							if d.Allowed != c.allowed || !errors.Is(d.Err, core.ErrStore) || (d.Limit.Requests == 100) != c.counts {
								t.Errorf("%s: %+v", c.name, d)
							}
							switch text := fmt.Sprint(d.Err); {
							case errors.Is(d.Err, core.ErrUnavailable):
								refusedAtOnce.Add(1)
							case strings.Contains(text, f.says):
								said.Add(1)
							default:
								onTheirOwn.Add(1)
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
				if state := redisstore.BreakerState(s.store, ""); state == "closed" {
					t.Error("the breaker is closed")
				}
			} else if !f.either {
				state, n := redisstore.BreakerState(s.store, ""), redisstore.BreakerFailures(s.store)
				if state != "closed" || n != 0 || refusedAtOnce.Load() > 0 {
					t.Errorf("the breaker is %s after %d failures, %d were refused at once; %v",
						state, n, refusedAtOnce.Load(), other.Load())
				}
			}

			end()
			s.counted("a counted decision after the fault")
			if d := s.patiently.Allow(ctx, "new"); d.Err != nil || !d.Allowed {
				t.Errorf("after the fault: %+v", d)
			}
			redistest.WaitFor(t, "calls and connections to settle", func() error {
				if n := redisstore.Calls(s.store); n > 0 {
					return fmt.Errorf("%d calls are under way", n)
				}
				n, err := connections(s.admin)
				if err != nil || n > s.rdb.Options().PoolSize+2 {
					return fmt.Errorf("%d connections, %v", n, err)
				}
				return nil
			})

			decisions := callers*each*3 + 20
			scripts := int(s.proxy.Scripts.Load() - before)
			t.Logf("%d decisions: %d said %q, %d did not wait, %d others; %d scripts delivered in all",
				decisions, said.Load(), f.says, refusedAtOnce.Load(), onTheirOwn.Load(), scripts)
			if scripts > decisions+1000 { // with those of WaitFor
				t.Errorf("%d scripts for %d decisions", scripts, decisions)
			}
			// With one connection one batch at a time speaks against the server, so its breaker may open at the end.
			if f.opens && refusedAtOnce.Load() == 0 && s.rdb.Options().PoolSize > 1 {
				t.Error("everybody waited")
			}
			s.consistent(f)
		})
	}
}

// consistent checks that the two limits of a rule have counted the same: what
// was written was written whole.
func (s *scene) consistent(f fault) {
	charged := 0
	for i := range 50 {
		keys := redisstore.Keys(s.store, s.open, fmt.Sprint("client ", i))
		log, err := s.admin.LLen(ctx, keys[0]).Result()
		if err != nil {
			s.Fatal(err)
		}
		value := s.admin.Get(ctx, keys[1]).Val()
		var counted int64
		if value != "" {
			if len(value) != 18 {
				s.Fatalf("%q is no counter", value)
			}
			for _, count := range []string{value[:6], value[6:12]} {
				counted += new(big.Int).SetBytes([]byte(count)).Int64()
			}
		}
		if counted != log {
			s.Errorf("the log has %d, the counter %q", log, value)
		}
		charged += int(log)
	}
	// One may have tried whether the server is back when it was.
	most := 0
	if f.opens || f.either {
		most = 1
	}
	if charged > most && !f.scripts && !f.kills && f.timeout == 0 {
		s.Errorf("%d were charged of which no decision knows", charged)
	}
}

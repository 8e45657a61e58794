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
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// load calls do in several goroutines, with numbers that go up, until stopped.
func load(workers int, do func(i int)) (stop func()) {
	var stopped atomic.Bool
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for !stopped.Load() {
				do(int(next.Add(1)))
			}
		})
	}
	return sync.OnceFunc(func() {
		stopped.Store(true)
		group.Wait()
	})
}

// TestSlotMigration moves slots under load, with rules of one limit and of two,
// whose keys are on both sides for a while: no decision errs, none is counted
// twice or lost.
func TestSlotMigration(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	cluster := redistest.StartCluster(t, 3, 0)
	rdb := cluster.Client(t)
	store := redisstore.New(rdb)
	// The longest window: where a counter's begins, what is counted becomes that of the window before.
	counter := core.Per(1_000_000, core.MaxWindow).Using(core.SlidingCounter).Named("counter")
	config := core.Config{
		Name: "one", Store: store, Limits: []core.Limit{core.PerHour(1_000_000)},
		OnStoreError: core.FailClosed, Timeout: patient,
	}
	one := limiter(t, config)
	config.Name, config.Limits = "two", []core.Limit{core.PerHour(1_000_000), counter}
	two := limiter(t, config)
	const clients = 12
	var admitted [2][clients]atomic.Int64
	stop := load(8, func(i int) {
		l, c := one, i%clients
		if i/clients%2 == 1 {
			l = two
		}
		d := l.Allow(ctx, fmt.Sprint("client ", c))
		if d.Err != nil || !d.Allowed {
			t.Errorf("%s: %+v", l.Name(), d)
		}
		admitted[i/clients%2][c].Add(1)
	})
	t.Cleanup(stop)
	moved := 0
	for i, l := range []*core.Limiter{one, two, one, two, two} {
		key := redisstore.Keys(store, l, fmt.Sprint("client ", i))[0]
		from := cluster.MasterOf(key)
		for _, to := range cluster.Servers[:3] {
			if to == from {
				continue
			}
			before := admitted[0][i].Load() + admitted[1][i].Load()
			m := cluster.BeginMigration(t, redistest.Slot(key), from, to)
			// The log first: the two keys of a rule are on both sides.
			m.MoveKeys(t, key)
			if l == one {
				redistest.WaitFor(t, "decisions by way of ASK", func() error {
					if admitted[0][i].Load()+admitted[1][i].Load() < before+20 {
						return errors.New("too few")
					}
					return nil
				})
			}
			m.Finish(t)
			from = to
			moved++
		}
	}
	stop()
	total := int64(0)
	for j, l := range []*core.Limiter{one, two} {
		for c := range clients {
			keys := redisstore.Keys(store, l, fmt.Sprint("client ", c))
			n := admitted[j][c].Load()
			total += n
			if got := rdb.LLen(ctx, keys[0]).Val(); got != n {
				t.Errorf("%s, client %d: %d in the log, %d admitted", l.Name(), c, got, n)
			}
			if j == 1 {
				count := string([]byte{0, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)})
				if got := rdb.Get(ctx, keys[1]).Val(); !strings.HasPrefix(got, count) {
					t.Errorf("client %d: the counter is %q, %d admitted", c, got, n)
				}
			}
		}
	}
	t.Logf("%d decisions, %d slots moved", total, moved)
}

// lostIn counts what was admitted of clients and is not in their logs any more. keys are
// those of the logs, and admitted the counts, by the client.
func lostIn(
	t *testing.T, rdb redis.UniversalClient, keys map[string]string, admitted map[string]*atomic.Int64,
) (lost, of int64) {
	for client, key := range keys {
		n, err := rdb.LLen(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		counted := admitted[client].Load()
		of += counted
		lost += max(0, counted-n)
	}
	return lost, of
}

// TestClusterMasterKilled: the policy decides for the slots of the master that
// died, the others do not notice, and all is well once a replica has taken over.
func TestClusterMasterKilled(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	cluster := redistest.StartCluster(t, 3, 1)
	for _, s := range cluster.Servers {
		// Else all slots are down while some are.
		if err := admin(t, s.Addr()).ConfigSet(ctx, "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	rdb := cluster.Client(t)
	store := redisstore.New(rdb)
	patiently, hastily := closedFor(t, store, patient), closedFor(t, store, 50*time.Millisecond)
	open := hastily.WithPolicy(core.FailOpen)

	victim := cluster.Servers[0]
	there, elsewhere := map[string]string{}, []string{}
	for i := 0; len(there) < 10 || len(elsewhere) < 10; i++ {
		client := fmt.Sprint("client ", i)
		if key := redisstore.Keys(store, patiently, client)[0]; cluster.MasterOf(key) == victim {
			there[client] = key
		} else {
			elsewhere = append(elsewhere, client)
		}
	}
	var concerned []string
	counted := map[string]*atomic.Int64{}
	for client := range there {
		concerned = append(concerned, client)
		counted[client] = new(atomic.Int64)
		if d := patiently.Allow(ctx, client); d.Err != nil {
			t.Fatal(d.Err)
		}
		counted[client].Add(1)
	}
	for _, client := range elsewhere {
		if d := patiently.Allow(ctx, client); d.Err != nil {
			t.Fatal(d.Err)
		}
	}

	var failed, atOnce, others atomic.Int64
	stop := load(8, func(i int) {
		if i%2 == 0 {
			others.Add(1)
			if d := patiently.Allow(ctx, elsewhere[i/2%len(elsewhere)]); d.Err != nil || !d.Allowed {
				t.Errorf("a client of another master: %+v", d)
			}
			return
		}
		client := concerned[i/2%len(concerned)]
		l, policy := hastily, false
		if i%4 == 1 {
			l, policy = open, true
		}
		switch d := l.Allow(ctx, client); {
		case d.Err == nil && d.Allowed:
			counted[client].Add(1)
		case d.Err == nil || !errors.Is(d.Err, core.ErrStore) || d.Allowed != policy:
			t.Errorf("a client of the master that died: %+v", d)
		default:
			failed.Add(1)
			if errors.Is(d.Err, core.ErrUnavailable) {
				atOnce.Add(1)
				time.Sleep(time.Millisecond) // or this is all that happens
			}
		}
	})
	t.Cleanup(stop)
	victim.Kill()
	redistest.WaitFor(t, "the breaker to open", func() error {
		if atOnce.Load() == 0 {
			return errors.New("nobody was refused at once")
		}
		return nil
	})
	died := time.Now()
	cluster.WaitOK(t)
	failedOver := time.Since(died)
	for _, client := range concerned {
		redistest.WaitFor(t, "a counted decision after the failover", func() error {
			d := patiently.Allow(ctx, client)
			if d.Err == nil {
				counted[client].Add(1)
			}
			return d.Err
		})
	}
	stop()
	t.Logf("failover after %v; %d decisions by policy, %d of them at once; %d elsewhere untouched",
		failedOver, failed.Load(), atOnce.Load(), others.Load())
	lost, of := lostIn(t, rdb, there, counted)
	t.Logf("the failover lost %d of %d admissions", lost, of)
}

// TestSentinelMasterKilled: the same with Sentinel, where one server has it all.
func TestSentinelMasterKilled(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	sentinel := redistest.StartSentinel(t, 2, 3)
	rdb := sentinel.Client(t)
	store := redisstore.New(rdb)
	closed := closedFor(t, store, patient)
	open := closedFor(t, store, 50*time.Millisecond).WithPolicy(core.FailOpen)
	redistest.WaitFor(t, "a first decision", func() error { return closed.AllowN(ctx, "k", 0).Err })

	var counted, failed, atOnce atomic.Int64
	stop := load(8, func(i int) {
		l := closed
		if i%2 == 1 {
			l = open
		}
		switch d := l.Allow(ctx, "k"); {
		case d.Err == nil && d.Allowed:
			counted.Add(1)
		case d.Err == nil || !errors.Is(d.Err, core.ErrStore) || d.Allowed != (l == open):
			t.Errorf("%+v", d)
		default:
			failed.Add(1)
			if errors.Is(d.Err, core.ErrUnavailable) {
				atOnce.Add(1)
				time.Sleep(time.Millisecond)
			}
		}
	})
	t.Cleanup(stop)
	redistest.WaitFor(t, "some decisions", func() error {
		if counted.Load() < 100 {
			return errors.New("too few")
		}
		return nil
	})
	old := sentinel.Master()
	old.Kill()
	died := time.Now()
	redistest.WaitFor(t, "the breaker to open", func() error {
		if atOnce.Load() == 0 {
			return errors.New("nobody was refused at once")
		}
		return nil
	})
	sentinel.WaitOK(t)
	failedOver := time.Since(died)
	redistest.WaitFor(t, "counted decisions after the failover", func() error {
		d := closed.Allow(ctx, "k")
		if d.Err == nil {
			counted.Add(1)
		}
		return d.Err
	})
	healed := time.Since(died)
	stop()
	t.Logf("failover after %v, healed after %v; %d decisions by policy, %d of them at once",
		failedOver, healed, failed.Load(), atOnce.Load())
	keys := map[string]string{"k": redisstore.Keys(store, closed, "k")[0]}
	lost, of := lostIn(t, rdb, keys, map[string]*atomic.Int64{"k": &counted})
	t.Logf("the failover lost %d of %d admissions", lost, of)
}

// TestStuckWorkers: calls that hang for as long as the client's own timeouts,
// long after their callers have left, keep nobody else from asking.
func TestStuckWorkers(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (redis.UniversalClient, []*proxy){
		"Client": func(t *testing.T) (redis.UniversalClient, []*proxy) {
			p := startProxy(t, redistest.Start(t).Addr())
			return redis.NewClient(&redis.Options{Addr: p.addr()}), []*proxy{p}
		},
		"Ring": func(t *testing.T) (redis.UniversalClient, []*proxy) {
			p := startProxy(t, redistest.Start(t).Addr())
			return redis.NewRing(&redis.RingOptions{
				Addrs: map[string]string{"a": p.target}, Dialer: dial(p), ReadTimeout: patient,
				HeartbeatFrequency: time.Hour,
			}), []*proxy{p}
		},
		"ClusterClient": func(t *testing.T) (redis.UniversalClient, []*proxy) {
			cluster := redistest.StartCluster(t, 3, 0)
			var proxies []*proxy
			for _, s := range cluster.Servers {
				proxies = append(proxies, startProxy(t, s.Addr()))
			}
			return redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: cluster.Addrs(), Dialer: dial(proxies...), ReadTimeout: patient,
			}), proxies
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noLeaks(t)
			rdb, proxies := open(t)
			t.Cleanup(func() { rdb.Close() })
			store := redisstore.New(rdb)
			patiently, hastily := closedFor(t, store, patient), closedFor(t, store, short)
			for range 2 { // then a cluster's map is known, and the script
				redistest.WaitFor(t, "a first decision", func() error { return patiently.AllowN(ctx, "k", 0).Err })
			}
			redisstore.HoldBreakersClosed(store)
			for range 4 { // as often as it takes for all workers to be stuck, and their successors
				for _, p := range proxies {
					p.mode.Store(silences)
				}
				var group sync.WaitGroup
				for range 20 {
					group.Go(func() {
						if d := hastily.Allow(ctx, "k"); !errors.Is(d.Err, core.ErrTimeout) {
							t.Errorf("%+v", d)
						}
					})
				}
				group.Wait()
				for _, p := range proxies {
					p.mode.Store(passes)
				}
				if d := patiently.Allow(ctx, "k"); d.Err != nil {
					t.Errorf("others ask: %+v", d)
				}
				if name != "Client" && redisstore.Calls(store) == 0 {
					t.Error("nobody was stuck")
				}
			}
		})
	}
}

package redisstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
)

var ctx = context.Background()

// bind returns how a server counts by limits.
func bind(t *testing.T, rdb redis.UniversalClient, limits ...core.Limit) *ledger {
	t.Helper()
	s := New(rdb)
	s.warmed = true // what a test sends is all that is sent
	l, err := core.New(core.Config{Name: "test", Store: s, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return s.newLedger(core.Binding{Name: "test", Limits: l.Limits()})
}

// bare is a store without the links in front of Redis.
type bare struct{ *Store }

func (s bare) Bind(rule core.Binding) (core.Ledger, error) { return s.newLedger(rule), nil }

// TestConformanceBare: the last link is a store by itself.
func TestConformanceBare(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	storetest.Run(t, func(*testing.T) core.Store { return bare{New(rdb)} })
}

// asking returns a request as Redis gets it, with no deadline.
func asking(l *ledger, key string, cost int64, charge bool) request {
	return request{Ask: core.Ask{Key: key, Cost: cost, Peek: !charge}, ledger: l}
}

// askAlone has the script decide one request.
func (l *ledger) askAlone(
	ctx context.Context, deadline time.Time, key string, cost int64, charge bool,
) (core.Decision, error) {
	q := asking(l, key, cost, charge)
	q.deadline = deadline
	return q.alone(ctx)
}

// usageLimiter returns a limiter that counts under the name of bind.
func usageLimiter(s *Store, limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{
		Name: "test", Store: s, Limits: limits, OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
	}))
}

// usageLimits are two limits by each algorithm.
func usageLimits() (limits []core.Limit) {
	for _, a := range core.Algorithms() {
		name := a.String()
		limits = append(limits,
			core.Per(10, core.MaxWindow).Using(a).Named(name), core.Per(1000, core.MaxWindow).Using(a).Named(name+" 2"))
	}
	return limits
}

// held is what a server says of its keys, and of how often it has written: the second
// number counts every write, of an expiry too.
func held(t *testing.T, rdb *redis.Client, c *ledger, client string) string {
	t.Helper()
	changes := rdb.InfoMap(ctx, "persistence").Item("Persistence", "rdb_changes_since_last_save")
	if changes == "" {
		t.Fatal("the server does not tell how often it has written")
	}
	said := fmt.Sprint(rdb.DBSize(ctx).Val(), " keys, ", changes, " writes")
	for _, key := range c.rule.Keys(nil, client) {
		said += fmt.Sprintf(" %q", rdb.Dump(ctx, key.(string)).Val())
	}
	return said
}

// TestUsageWritesNothing: Usage is one call of the script, and leaves the server as it
// was, of a client that is known, of one at its limit and of one that is not known.
func TestUsageWritesNothing(t *testing.T) {
	rdb := redistest.Start(t, "--save", "").Client(t)
	s := New(rdb)
	l, c := usageLimiter(s, usageLimits()...), bind(t, rdb, usageLimits()...)
	l.AllowN(ctx, "known", 3)
	l.AllowN(ctx, "full", 10)
	Settle(t, s)
	if d := l.Allow(ctx, "full"); d.Allowed || d.Err != nil {
		t.Fatalf("%+v, want a refusal", d)
	}
	for client, used := range map[string]int64{"known": 3, "full": 10, "stranger": 0} {
		before, ran := held(t, rdb, c, client), scriptsRun(t, rdb)
		const times = 20
		for range times {
			uses, err := l.Usage(ctx, client)
			if err != nil || len(uses) != len(usageLimits()) {
				t.Fatalf("%s: %v, %v", client, uses, err)
			}
			for i, u := range uses {
				if limit := l.Limits()[i]; u.Limit != limit || u.Used != used || u.Remaining != limit.Requests-used {
					t.Fatalf("%s: %+v, want %d used of %v", client, u, used, limit)
				}
			}
		}
		if got := scriptsRun(t, rdb) - ran; got != times {
			t.Errorf("%s: %d scripts for %d calls of Usage", client, got, times)
		}
		if after := held(t, rdb, c, client); after != before {
			t.Errorf("%s:\nbefore %s\n after %s", client, before, after)
		}
	}
}

// TestUsageOfAForeignValue: a value that is not the store's is an error, and stays.
func TestUsageOfAForeignValue(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l, c := usageLimiter(New(rdb), usageLimits()...), bind(t, rdb, usageLimits()...)
	rdb.HSet(ctx, c.rule.Keys(nil, "client")[1].(string), "field", "value")
	before := held(t, rdb, c, "client")
	uses, err := l.Usage(ctx, "client")
	if uses != nil || !errors.Is(err, ErrForeign) || !errors.Is(err, core.ErrStore) {
		t.Errorf("%v, %v, want ErrForeign", uses, err)
	}
	if after := held(t, rdb, c, "client"); after != before {
		t.Errorf("before %s\n after %s", before, after)
	}
}

// TestUsageWithoutServer: a server that is down is an error, and one that has been failing
// is not waited for.
func TestUsageWithoutServer(t *testing.T) {
	server := redistest.Start(t)
	l := usageLimiter(New(server.Client(t)), usageLimits()...)
	server.Kill()
	for i := 0; ; i++ {
		uses, err := l.Usage(ctx, "client")
		if uses != nil || !errors.Is(err, core.ErrStore) {
			t.Fatalf("%v, %v, want ErrStore", uses, err)
		}
		if errors.Is(err, core.ErrUnavailable) {
			return
		}
		if i == 100 {
			t.Fatalf("call %d: %v, want ErrUnavailable once the breaker is open", i, err)
		}
	}
}

// TestUsageReply: a reply that is cut off, too long, or refuses what costs nothing is an
// error.
func TestUsageReply(t *testing.T) {
	rule := core.Binding{Limits: []core.Limit{core.PerMinute(1)}}
	c := &ledger{rule: script.New("", rule, script.Script{})}
	if uses, err := c.readUsage("1790000000 593790A-"); err != nil || len(uses) != 1 || uses[0].Used != 0 {
		t.Errorf("%v, %v, want one use", uses, err)
	}
	for reply, want := range map[string]error{
		"": script.ErrReply, "1790000000 593790": script.ErrReply, "1790000000 593790A": script.ErrReply,
		"1790000000 593790A--": script.ErrReply,
		"1790000000 593790R-":  script.ErrDisagree, "1790000000 593790Fkey\n": ErrForeign,
	} {
		if uses, err := c.readUsage(reply); uses != nil || !errors.Is(err, want) {
			t.Errorf("%q: %v, %v, want %v", reply, uses, err, want)
		}
	}
	if _, err := c.readUsage("1790000000 593790EERR no\n"); err == nil || !strings.Contains(err.Error(), "ERR no") {
		t.Errorf("%v, want the error of Redis", err)
	}
}

// scriptsRun is how many scripts the server has run.
func scriptsRun(t testing.TB, rdb *redis.Client) (n int) {
	for line := range strings.SplitSeq(rdb.Info(ctx, "commandstats").Val(), "\r\n") {
		var calls int
		for _, command := range []string{"evalsha", "eval"} {
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}

// TestUsageTogether: what is asked at the same time of many clients goes together with other requests, and each gets
// its own answer.
func TestUsageTogether(t *testing.T) {
	rdb := redistest.Start(t, "--save", "").Client(t)
	s := New(rdb)
	if err := Join(s); err != nil {
		t.Fatal(err)
	}
	l := usageLimiter(s, usageLimits()...)
	const clients = 200
	for i := range int64(clients) {
		l.AllowN(ctx, fmt.Sprint(i), i%10)
	}
	before := s.Stats().Scripts
	var group sync.WaitGroup
	for i := range int64(clients) {
		group.Go(func() {
			uses, err := l.Usage(ctx, fmt.Sprint(i))
			if err != nil || len(uses) != len(usageLimits()) || uses[0].Used != i%10 || uses[3].Used != i%10 {
				t.Errorf("client %d: %+v, %v", i, uses, err)
			}
		})
	}
	group.Wait()
	if scripts := s.Stats().Scripts - before; scripts >= clients {
		t.Errorf("%d scripts for %d clients at once, want fewer", scripts, clients)
	}
}

// watchedConn calls onWrite, on the goroutine that writes.
type watchedConn struct {
	net.Conn
	onWrite func()
}

func (c watchedConn) Write(b []byte) (int, error) {
	c.onWrite()
	return c.Conn.Write(b)
}

// watched returns the options of a client whose connections are watched.
func watched(addr string, onWrite func()) *redis.Options {
	return &redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return watchedConn{conn, onWrite}, err
	}}
}

// TestLoneCaller: a caller that is alone sends its request itself, if it can be
// sure to be back at its deadline and no later than within a second.
func TestLoneCaller(t *testing.T) {
	server := redistest.Start(t)
	for name, test := range map[string]struct {
		timeout time.Duration
		change  func(*redis.Options)
		want    bool
	}{
		"within a second": {timeout: time.Second, want: true},
		"in a hurry":      {timeout: core.DefaultTimeout / 2},
		"patient":         {timeout: time.Minute},
		"OnConnect": {timeout: time.Second, change: func(o *redis.Options) {
			o.OnConnect = func(context.Context, *redis.Conn) error { return nil }
		}},
		"CredentialsProvider": {timeout: time.Second, change: func(o *redis.Options) {
			o.CredentialsProvider = func() (string, string) { return "", "" }
		}},
		"CredentialsProviderContext": {timeout: time.Second, change: func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", nil }
		}},
		"StreamingCredentialsProvider": {timeout: time.Second, change: func(o *redis.Options) {
			o.StreamingCredentialsProvider = noCredentials{}
		}},
		"Limiter": {timeout: time.Second, change: func(o *redis.Options) { o.Limiter = noLimiter{} }},
	} {
		t.Run(name, func(t *testing.T) {
			var inline atomic.Bool
			o := watched(server.Addr(), func() {
				stack := make([]byte, 64<<10)
				stack = stack[:runtime.Stack(stack, false)]
				inline.Store(bytes.Contains(stack, []byte(").serveInline(")))
			})
			if test.change != nil {
				test.change(o)
			}
			rdb := redis.NewClient(o)
			defer rdb.Close()
			c := bind(t, rdb, core.PerHour(100_000))
			if test.timeout < core.DefaultTimeout { // not worth waiting for
				_, _ = c.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Timeout: test.timeout})
			} else {
				redistest.WaitFor(t, "an answer in time", func() error {
					_, err := c.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Timeout: test.timeout})
					if err == nil && test.want && !inline.Load() {
						err = errors.New("the server took too long before, so the caller left the request to a worker")
					}
					return err
				})
			}
			if inline.Load() != test.want {
				t.Errorf("the caller sent its request itself: %v, want %v", inline.Load(), test.want)
			}
		})
	}
}

// cancelledWhenAsked is cancelled when the queue has asked whether it is.
type cancelledWhenAsked struct {
	context.Context
	cancel context.CancelFunc
}

func (c cancelledWhenAsked) Err() error {
	defer c.cancel()
	return c.Context.Err()
}

// TestLoneCallerIsCancelled: a caller that is alone and is cancelled while a silent
// server is asked leaves at its deadline, and what it saw speaks against the server.
func TestLoneCallerIsCancelled(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	ctx := cancelledWhenAsked{cancelled, cancel}
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String()})
	defer rdb.Close()
	c := bind(t, rdb, core.PerHour(10))
	deadline := time.Now().Add(time.Second)
	_, err = c.Take(ctx, core.Ask{Key: "k", Cost: 1, Timeout: time.Until(deadline)})
	if err != server.ErrLate || ctx.Err() == nil || time.Now().Before(deadline) {
		t.Errorf("%v; cancelled: %v, %v before the deadline", err, ctx.Err(), time.Until(deadline))
	}
	redistest.WaitFor(t, "the breaker to hear of it", func() error {
		if n := c.batches.server.Counts().TotalFailures; n != 1 {
			return fmt.Errorf("%d failures", n)
		}
		return nil
	})
}

// noCredentials provides credentials that are none.
type noCredentials struct{}

func (noCredentials) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return auth.NewBasicCredentials("", ""), func() error { return nil }, nil
}

// noLimiter is a limiter of go-redis that limits nothing.
type noLimiter struct{}

func (noLimiter) Allow() error       { return nil }
func (noLimiter) ReportResult(error) {}

// TestLimitFailures: keyfuncs.LimitFailures asks the verifier about no API key for which Redis has counted no
// failure, though Redis can be read; and what else stands in the way of an address goes with its first attempt.
func TestLimitFailures(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	failures := core.Must(core.New(core.Config{
		Name: "failures", Store: New(rdb), Limits: []core.Limit{core.Per(2, 100*time.Millisecond).Named("all")},
		OnStoreError: core.FailClosed, Timeout: time.Minute,
	}))
	asked := 0
	verify := func(context.Context, string) (string, error) {
		asked++
		return "", nil
	}
	f := keyfuncs.APIKey("X-API-Key", verify, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP))
	guess := func() (refused *keyfuncs.RefusedError) {
		_, err := f(&http.Request{RemoteAddr: "198.51.100.7:1", Header: http.Header{"X-Api-Key": {"wrong"}}})
		errors.As(err, &refused)
		return refused
	}
	admitted := func() error {
		if refused := guess(); refused != nil {
			return refused
		}
		return nil
	}
	var key string
	redistest.WaitFor(t, "the script and a log", func() error {
		if err := admitted(); err != nil {
			return err
		}
		keys := rdb.Keys(ctx, "*").Val()
		if len(keys) != 1 { // it has expired
			return fmt.Errorf("%d keys", len(keys))
		}
		key = keys[0]
		return nil
	})

	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	asked = 0
	for range 1000 {
		if refused := guess(); refused == nil || !errors.Is(refused.Decision.Err, core.ErrStore) {
			t.Fatalf("a guess at a full Redis: got %v, want it refused for the store", refused)
		}
	}
	if asked != 0 {
		t.Errorf("with a full Redis: got %d of 1000 guesses at the verifier, want 0", asked)
	}
	rdb.ConfigSet(ctx, "maxmemory", "0")

	for name, put := range map[string]func(redis.Pipeliner){
		"a foreign value": func(p redis.Pipeliner) { p.Set(ctx, key, "hello", 0) },
		"a clock that was ahead": func(p redis.Pipeliner) {
			stamp := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(24*time.Hour).UnixMicro())<<16)[:6]
			p.RPush(ctx, key, string(stamp)+"\x00\x00\x02", string(stamp)+"\x00\x00\x01")
		},
	} {
		if _, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			put(p)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		redistest.WaitFor(t, fmt.Sprint("an attempt after ", name), admitted)
	}
}

// TestLeaseOptions: what is no lease is an error that says what is.
func TestLeaseOptions(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, wrong := range []Option{
		WithLease(1, time.Second), WithLease(-1, time.Second), WithLease(core.MaxLogRequests+1, time.Second),
		WithLease(100, 0), WithLease(100, time.Hour),
	} {
		_, err := core.New(core.Config{Store: New(rdb, wrong), Limits: []core.Limit{core.PerMinute(100)}})
		if err == nil || !strings.Contains(err.Error(), "such as") {
			t.Errorf("%v", err)
		}
	}
}

// TestLeaseReset: this process believes a reset at once, for every rule that
// may be on the same counts.
func TestLeaseReset(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	store := New(rdb, WithLease(1000, time.Minute))
	limit := core.PerHour(100_000)
	make := func() *core.Limiter {
		return core.Must(core.New(core.Config{
			Store: store, Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
		}))
	}
	l, same := make(), make()
	for range 3 {
		for i := range int64(5000) {
			if d := l.Allow(ctx, "client"); !d.Allowed || i < 3 && d.Remaining != limit.Requests-1-i {
				t.Fatalf("request %d: %+v", i, d)
			}
			same.Allow(ctx, "other")
		}
		if err := same.Reset(ctx, "client"); err != nil {
			t.Fatal(err)
		}
		if d := l.AllowN(ctx, "client", 0); d.Remaining != limit.Requests {
			t.Fatalf("after the reset: %+v", d)
		}
	}
}

// TestLeaseLoweredLimits: a charge is not taken from a lease. A request under lowered limits, of its own or of a
// limiter of WithLimits, is never admitted from units that were leased under larger ones.
func TestLeaseLoweredLimits(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	l := core.Must(core.New(core.Config{
		Store: New(rdb, WithLease(1000, time.Minute)), Limits: []core.Limit{core.PerHour(100_000)},
		OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
	}))
	leased := 0
	for i := range 5000 {
		d := l.Allow(ctx, "client")
		if !d.Allowed {
			t.Fatalf("request %d: got %+v, want an admission", i, d)
		}
		if d.Source == core.SourceLeased {
			leased++
		}
	}
	if leased == 0 {
		t.Fatal("nothing was leased")
	}
	if d := l.Charge(ctx, "client", 1); !d.Allowed || d.Source == core.SourceLeased {
		t.Errorf("a charge: got %+v, want it counted", d)
	}
	lowered := []core.Limit{core.PerHour(5000)}
	other := core.Must(l.WithLimits(lowered...))
	for name, ask := range map[string]func(context.Context) core.Decision{
		"of the request": func(ctx context.Context) core.Decision {
			return l.Decide(ctx, core.Request{Key: "client", Cost: 1, Limits: lowered})
		},
		"of WithLimits": func(ctx context.Context) core.Decision { return other.Allow(ctx, "client") },
	} {
		for range 3 {
			if d := l.Allow(ctx, "client"); d.Source != core.SourceLeased {
				t.Fatalf("got %+v, want an admission by a lease", d)
			}
			if d := ask(ctx); d.Allowed || d.Source == core.SourceLeased {
				t.Errorf("%s: got %+v, want a refusal", name, d)
			}
		}
	}
}

// TestConformanceLeased: with leases, rules that cannot be leased, and keys
// that are not busy, are as exact as without. Three subtests are run without:
// they demand the exact number or moment of rules that are leased, where a
// lease may refuse early and is counted at its end.
func TestConformanceLeased(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	storetest.Run(t, func(t *testing.T) core.Store {
		for _, exact := range []string{"/Histories", "/Concurrency", "/Extremes"} {
			if strings.HasSuffix(t.Name(), exact) {
				return New(rdb)
			}
		}
		return New(rdb, WithLease(1000, time.Minute))
	})
}

// TestScriptsBounded: a store keeps few scripts, however many kinds of rules are bound, and a rule whose
// script is no longer kept goes on.
func TestScriptsBounded(t *testing.T) {
	s := New(redistest.Start(t).Client(t))
	rng := rand.New(rand.NewPCG(1, 16))
	take := func(c core.Ledger, key string) {
		t.Helper()
		if d, err := c.Take(ctx, core.Ask{Key: key, Cost: 1}); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	var first core.Ledger
	for i := range 3 * maxScripts {
		limits := make([]core.Limit, 1+rng.IntN(script.MaxLimits))
		for i := range limits {
			limits[i] = core.PerHour(10).Using(core.Algorithm(rng.IntN(len(core.Algorithms())))).Named(fmt.Sprint(i))
		}
		c, err := s.Bind(core.Binding{Name: "test", Rule: fmt.Sprint(i), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = c
		}
		if i%50 == 0 {
			take(c, "k")
		}
		if len(s.scripts) > maxScripts {
			t.Fatalf("%d scripts after %d rules", len(s.scripts), i+1)
		}
	}
	if len(s.scripts) != maxScripts {
		t.Errorf("%d scripts, want %d", len(s.scripts), maxScripts)
	}
	clear(s.scripts)
	take(first, "k")
}

// TestPlan: requests with the same limits of their own are decided by one ledger, and others by another, also if the
// caller has changed the limits.
func TestPlan(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	rule, plan := bind(t, rdb, core.PerMinute(3)), []core.Limit{core.PerMinute(5)}
	first := rule.with(plan, 0)
	if again := rule.with(slices.Clone(plan), 0); again != first {
		t.Error("the same limits have another ledger")
	}
	plan[0].Requests = 7
	other := rule.with(plan, 0)
	if first.rule.Limits[0].Requests != 5 || other.rule.Limits[0].Requests != 7 || other.rule.Args[0] != "7" {
		t.Errorf("%v, then %v by the arguments %v", first.rule.Limits, other.rule.Limits, other.rule.Args)
	}
}

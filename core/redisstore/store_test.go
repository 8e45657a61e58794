package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestConformanceSingle: see TestConformanceElsewhere.
func TestConformanceSingle(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	storetest.Run(t, func(*testing.T) core.Store { return redisstore.New(rdb) })
}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // go-redis logs every failed dial; some tests fail thousands
	os.Exit(m.Run())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var ctx = context.Background()

// calls is how often a server has run a command.
func calls(t *testing.T, rdb redis.UniversalClient, command string) (n int) {
	t.Helper()
	for _, line := range strings.Split(rdb.Info(ctx, "commandstats").Val(), "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			if _, err := fmt.Sscanf(rest, "%d,", &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

func TestOneRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	store := redisstore.New(rdb, redisstore.WithoutSharedScripts())
	l := core.Must(core.New(core.Config{
		Store:   store,
		Limits:  []core.Limit{core.PerSecond(100), core.PerMinute(100), core.PerHour(100).Using(core.SlidingCounter)},
		Timeout: 20 * time.Second,
	}))
	if d := l.Allow(ctx, "warm up"); d.Err != nil {
		t.Fatal(d.Err)
	}
	rdb.ConfigResetStat(ctx)
	for range 10 {
		if d := l.Allow(ctx, "k"); d.Err != nil || !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	if n, time := calls(t, rdb, "evalsha"), calls(t, rdb, "time"); n != 10 || time != 10 {
		t.Errorf("10 decisions under 3 limits took %d scripts that read the time %d times", n, time)
	}
}

// watched is a connection that remembers its last deadline for reading.
type watched struct {
	net.Conn
	last *atomic.Pointer[time.Time]
}

func (w watched) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		w.last.Store(&at)
	}
	return w.Conn.SetReadDeadline(at)
}

// TestConnectionTimeout: a connection waits for a reply exactly as long as the
// decision does, and the client's own settings stay what they were.
func TestConnectionTimeout(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	var last atomic.Pointer[time.Time]
	rdb := redis.NewClient(&redis.Options{
		Addr: redistest.Start(t).Addr(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return watched{conn, &last}, err
		},
	})
	t.Cleanup(func() { rdb.Close() })
	before := *rdb.Options()
	store := redisstore.New(rdb)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1000)},
		Timeout: patient, Observer: core.Silent}) // else INFO is sent too
	if d := l.Allow(ctx, "k"); d.Err != nil {
		t.Fatal(d.Err)
	}
	redistest.WaitFor(t, "the pings that warm the store to be over", func() error {
		start := time.Now()
		if d := l.Allow(ctx, "k"); d.Err != nil {
			t.Fatal(d.Err)
		}
		elapsed := time.Since(start)
		if waits := last.Load().Sub(start); waits < patient || waits > patient+elapsed {
			return fmt.Errorf("the connection waits until %v after the start, want between %v and %v",
				waits, patient, patient+elapsed)
		}
		return nil
	})
	o := rdb.Options()
	if o.ContextTimeoutEnabled != before.ContextTimeoutEnabled ||
		o.ReadTimeout != before.ReadTimeout || o.WriteTimeout != before.WriteTimeout {
		t.Errorf("the client's own options became %v, %v, %v", o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	}
}

// another is a client of a program's own type.
type another struct{ redis.UniversalClient }

func TestConstructors(t *testing.T) {
	limits := []core.Limit{core.PerMinute(1)}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	const noClient = "sash: redisstore.New(nil): give a client, such as redis.NewClient("
	const unmade = "not made by redisstore.New or redisstore.Open"
	const rule = ": give 1 to 128 bytes without braces and newlines"
	leasing := func(size int64, d time.Duration) core.Store {
		return redisstore.New(rdb, redisstore.WithLease(size, d))
	}
	prefixed := func(prefix string) core.Store { return redisstore.New(rdb, redisstore.WithPrefix(prefix)) }
	for name, test := range map[string]struct {
		store core.Store
		want  string
	}{
		"nil":                    {redisstore.New(nil), noClient},
		"nil Client":             {redisstore.New((*redis.Client)(nil)), noClient},
		"nil ClusterClient":      {redisstore.New((*redis.ClusterClient)(nil)), noClient},
		"nil Ring":               {redisstore.New((*redis.Ring)(nil)), noClient},
		"nil of another type":    {redisstore.New((*another)(nil)), noClient},
		"zero Client":            {redisstore.New(new(redis.Client)), noClient},
		"zero ClusterClient":     {redisstore.New(new(redis.ClusterClient)), noClient},
		"zero Ring":              {redisstore.New(new(redis.Ring)), noClient},
		"braces":                 {prefixed("a{b"), `redisstore.WithPrefix("a{b")` + rule},
		"newline":                {prefixed("a\nb"), `redisstore.WithPrefix("a\nb")` + rule},
		"empty prefix":           {prefixed(""), `redisstore.WithPrefix("")` + rule},
		"long prefix":            {prefixed(strings.Repeat("a", 129)), rule},
		"a huge prefix":          {prefixed(strings.Repeat("x", 1<<20)), rule}, // which is not repeated
		"a lease of 1":           {leasing(1, time.Second), "such as 1000"},
		"a lease of less":        {leasing(-1, time.Second), "such as 1000"},
		"a lease of too much":    {leasing(core.MaxLogRequests+1, time.Second), "such as 1000"},
		"a lease for no time":    {leasing(100, 0), "such as 100*time.Millisecond"},
		"a lease for too long":   {leasing(100, time.Hour), "such as 100*time.Millisecond"},
		"nil option":             {redisstore.New(rdb, redisstore.WithPrefix("a"), nil), "option 2 of redisstore is nil"},
		"zero Store":             {new(redisstore.Store), unmade},
		"nil Store":              {(*redisstore.Store)(nil), "Config.Store is a nil *redisstore.Store"},
		"down":                   {redisstore.New(rdb), ""},
		"another type":           {redisstore.New(another{rdb}), ""},
		"pointer to another":     {redisstore.New(&another{rdb}), ""},
		"the longest prefix":     {prefixed(strings.Repeat("a", 128)), ""},
		"any byte but the three": {prefixed("\x00 \xff*?["), ""},
	} {
		_, err := core.New(core.Config{Store: test.store, Limits: limits})
		if (err != nil) != (test.want != "") || err != nil && (!mentions(err, test.want) || len(err.Error()) > 500) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	many := make([]core.Limit, 17)
	for i := range many {
		many[i] = core.PerMinute(1).Named(fmt.Sprint(i))
	}
	if _, err := core.New(core.Config{Store: redisstore.New(rdb), Limits: many[:16]}); err != nil {
		t.Errorf("16 limits: %v", err)
	}
	if _, err := core.New(core.Config{Store: redisstore.New(rdb), Limits: many}); !mentions(err, "at most 16") {
		t.Errorf("17 limits: %v", err)
	}
}

// TestUnmadeStore: a store that no constructor has made says so, and does not
// panic.
func TestUnmadeStore(t *testing.T) {
	const want = "not made by redisstore.New or redisstore.Open"
	var none *redisstore.Store
	for name, err := range map[string]error{
		"Check of nil":            none.Check(ctx),
		"Close of nil":            none.Close(),
		"Check of the zero value": new(redisstore.Store).Check(ctx),
	} {
		if !mentions(err, want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if err := new(redisstore.Store).Close(); err != nil {
		t.Errorf("Close of the zero value: %v", err)
	}
}

// TestCloseTwice: a store closes its own client once, and never the caller's.
func TestCloseTwice(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := store.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if err := store.Check(ctx); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("after Close the client is still open: %v", err)
	}
	rdb := server.Client(t)
	if err := redisstore.New(rdb).Close(); err != nil || rdb.Ping(ctx).Err() != nil {
		t.Errorf("Close of a store of New: %v, and the caller's client: %v", err, rdb.Ping(ctx).Err())
	}
}

func TestOpen(t *testing.T) {
	for _, url := range []string{
		"", "127.0.0.1:6379", "http://:secret@127.0.0.1",
		"redis://:secret@127.0.0.1:x/0", "redis://:secret@127.0.0.1/zero",
	} {
		if _, err := redisstore.Open(url); !mentions(err, "redis://") || mentions(err, "secret") {
			t.Errorf("Open(%q): %v", url, err)
		}
	}
	const impossible = "redis://:secret@127.0.0.1:1?pool_size=-1"
	if _, err := redisstore.Open(impossible); !mentions(err, "pool_size") || mentions(err, "secret") {
		t.Errorf("an impossible size of the pool: %v", err)
	}
	store, err := redisstore.Open(redistest.Start(t).URL(), redisstore.WithPrefix("mine"))
	if err != nil {
		t.Fatal(err)
	}
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerMinute(1)}, OnStoreError: core.FailClosed, Timeout: patient,
	})
	if d := l.Allow(ctx, "k"); d.Err != nil || !d.Allowed {
		t.Errorf("%+v", d)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if d := l.Allow(ctx, "k"); d.Allowed || !errors.Is(d.Err, redis.ErrClosed) {
		t.Errorf("after Close: %+v", d)
	}
}

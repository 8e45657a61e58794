package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
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
		"nil option":             {redisstore.New(rdb, redisstore.WithPrefix("a"), nil), "option 2 of redisstore is"},
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

// TestUnmadeStore: a store that no constructor has made says so, has zero Stats, and does not panic.
func TestUnmadeStore(t *testing.T) {
	for _, s := range []*redisstore.Store{nil, {}, redisstore.New(nil), redisstore.New((*redis.Client)(nil))} {
		err := s.Check(ctx)
		if !mentions(err, "redisstore.New") || fmt.Sprint(s.Stats()) != fmt.Sprint(redisstore.Stats{}) {
			t.Errorf("%v, %+v", err, s.Stats())
		}
		if err := s.Close(); mentions(err, "not made by redisstore.New or redisstore.Open") != (s == nil) {
			t.Errorf("Close: %v", err)
		}
	}
}

// TestOpen: a store has a client of its own, which it closes once, and never the caller's. What is wrong with the URL
// is told without its password.
func TestOpen(t *testing.T) {
	for url, says := range map[string]string{
		"": "redis://", "127.0.0.1:6379": "redis://", "http://:secret@127.0.0.1": "redis://",
		"redis://:secret@127.0.0.1:x/0": "redis://", "redis://:secret@127.0.0.1/zero": "redis://",
		"redis://:secret@127.0.0.1:1?pool_size=-1": "pool_size",
	} {
		if _, err := redisstore.Open(url); !mentions(err, says) || mentions(err, "secret") {
			t.Errorf("Open(%q): %v", url, err)
		}
	}
	server := redistest.Start(t)
	store, err := redisstore.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerMinute(1)}, OnStoreError: core.FailClosed, Timeout: patient,
	})
	if d := l.Allow(ctx, "k"); d.Err != nil || !d.Allowed {
		t.Errorf("%+v", d)
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
	if d := l.Allow(ctx, "k"); d.Allowed || !errors.Is(d.Err, redis.ErrClosed) {
		t.Errorf("after Close: %+v", d)
	}
	rdb := server.Client(t)
	if err := redisstore.New(rdb).Close(); err != nil || rdb.Ping(ctx).Err() != nil {
		t.Errorf("Close of a store of New: %v, and the caller's client: %v", err, rdb.Ping(ctx).Err())
	}
}

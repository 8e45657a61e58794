package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/redistest"
)

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
	return fmt.Sprint(rdb.DBSize(ctx).Val(), " keys, ", changes, " writes: ", dump(t, rdb, c, client))
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

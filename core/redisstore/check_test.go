package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestCheck: what an operator should know is said, and nothing where all is
// well; the keys that it used are gone.
func TestCheck(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	root := admin(t, server.Addr())
	if err := root.Do(ctx, "ACL", "SETUSER", "root", "on", "nopass", "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	do := func(commands ...string) {
		t.Helper()
		for _, c := range commands {
			var args []any
			for _, a := range strings.Fields(c) {
				args = append(args, a)
			}
			if err := root.Do(ctx, args...).Err(); err != nil {
				t.Fatalf("%s: %v", c, err)
			}
		}
	}
	needed := "+evalsha +eval +del +time +get +set +setrange +lindex +llen +rpush +ltrim +pexpire"
	for _, c := range []struct {
		name       string
		before     string
		user, pass string
		says       []string // nothing: all is well
		after      string
	}{
		{name: "all is well"},
		{name: "eviction, but no maximum", before: "CONFIG SET maxmemory-policy allkeys-lru", after: "CONFIG SET maxmemory-policy noeviction"},
		{name: "a maximum, but no eviction", before: "CONFIG SET maxmemory 100mb", after: "CONFIG SET maxmemory 0"},
		{
			name: "eviction", before: "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru", after: "CONFIG SET maxmemory 0 maxmemory-policy noeviction",
			says: []string{"maxmemory 104857600", "allkeys-lru", "set maxmemory-policy noeviction"},
		},
		{
			name: "eviction of keys with a TTL", before: "CONFIG SET maxmemory 100mb maxmemory-policy volatile-ttl", after: "CONFIG SET maxmemory 0 maxmemory-policy noeviction",
			says: []string{"volatile-ttl", "every key of sash has a TTL"},
		},
		{name: "full", before: "CONFIG SET maxmemory 1", after: "CONFIG SET maxmemory 0", says: []string{"the server is full", "raise maxmemory", "OOM"}},
		{name: "replica", before: "REPLICAOF 127.0.0.1 1", after: "REPLICAOF NO ONE", says: []string{"replica, of 127.0.0.1:1,", "READONLY", "master's address"}},
		{name: "no replicas", before: "CONFIG SET min-replicas-to-write 1", after: "CONFIG SET min-replicas-to-write 0", says: []string{"cannot decide", "NOREPLICAS"}},
		{name: "the least permission", before: "ACL SETUSER api on >secret ~sash:* " + needed, user: "api", pass: "secret"},
		{name: "without INFO and one more", before: "ACL SETUSER api -time", after: "ACL SETUSER api +time", user: "api", pass: "secret", says: []string{"may not", "~PREFIX:*", needed, "could not be looked at"}},
		{name: "without LTRIM", before: "ACL SETUSER api -ltrim", after: "ACL SETUSER api +ltrim", user: "api", pass: "secret", says: []string{"may not do"}},
		{name: "without SETRANGE", before: "ACL SETUSER api -setrange", after: "ACL SETUSER api +setrange", user: "api", pass: "secret", says: []string{"may not do"}},
		{name: "without DEL", before: "ACL SETUSER api -del", after: "ACL SETUSER api +del", user: "api", pass: "secret", says: []string{"may not do"}},
		{name: "other keys", before: "ACL SETUSER api resetkeys ~other:*", user: "api", pass: "secret", says: []string{"NOPERM", "~PREFIX:*"}},
		{name: "wrong password", user: "api", pass: "guess", says: []string{"refuses the user name or the password", "WRONGPASS"}},
		{name: "no password", before: "ACL SETUSER default resetpass", after: "ACL SETUSER default nopass", says: []string{"asks for a password", "NOAUTH"}},
	} {
		if c.before != "" {
			do(c.before)
		}
		// The administrator must not be shut out with the others.
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: c.user, Password: c.pass})
		err := redisstore.New(rdb).Check(ctx)
		rdb.Close()
		if c.after != "" {
			do(c.after)
		}
		if (err != nil) != (len(c.says) > 0) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v\n does not say %q", c.name, err, says)
			}
		}
		if n := root.DBSize(ctx).Val(); n > 2 {
			t.Errorf("%s: %d keys are left", c.name, n)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is told: %v", c.name, err)
		}
		root.FlushAll(ctx)
	}
}

func TestCheckUnreachable(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	rdb := server.Client(t)
	store := redisstore.New(rdb)
	if err := store.Check(ctx); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	hasty, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := store.Check(hasty); err == nil || !strings.Contains(err.Error(), "is it up") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent: %v", err)
	}
	server.Kill()
	if err := store.Check(ctx); err == nil || !strings.Contains(err.Error(), "cannot be reached") || !strings.Contains(err.Error(), server.Addr()) {
		t.Errorf("refused: %v", err)
	}
	// It sees for itself: a breaker that is open is none of its business.
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1)}, Timeout: short})
	for range 10 {
		l.Allow(ctx, "k")
	}
	if state := redisstore.BreakerState(store, ""); state == "closed" {
		t.Error("the breaker is closed")
	}
	server.Restart()
	redistest.WaitFor(t, "Check to find all well", func() error { return store.Check(ctx) })

	if err := redisstore.New(nil).Check(ctx); err == nil || !strings.Contains(err.Error(), "give a client") {
		t.Errorf("no client: %v", err)
	}
}

// TestCheckCluster: every master is looked at.
func TestCheckCluster(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	cluster := redistest.StartCluster(t, 3, 0)
	store := redisstore.New(cluster.Client(t))
	if err := store.Check(ctx); err != nil {
		t.Fatal(err)
	}
	for i, set := range [][]any{
		{"CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-random"},
		{"CONFIG", "SET", "min-replicas-to-write", 1},
		{"CONFIG", "SET", "maxmemory", "1"},
	} {
		if err := admin(t, cluster.Servers[i].Addr()).Do(ctx, set...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	err := store.Check(ctx)
	for i, says := range []string{"allkeys-random", "NOREPLICAS", "OOM"} {
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), cluster.Servers[i].Addr()) {
			t.Errorf("%v\n does not say %q of %s", err, says, cluster.Servers[i].Addr())
		}
	}
}

func TestCheckSentinel(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	sentinel := redistest.StartSentinel(t, 1, 1)
	if err := redisstore.New(sentinel.Client(t)).Check(ctx); err != nil {
		t.Error(err)
	}
	err := redisstore.New(sentinel.Replicas()[0].Client(t)).Check(ctx)
	if err == nil || !strings.Contains(err.Error(), "replica, of "+sentinel.Master().Addr()) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a replica: %v", err)
	}
}

// TestCheckVersion: by what servers say of themselves. Where there is no INFO,
// as in miniredis, that alone is no finding.
func TestCheckVersion(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	for version, old := range map[string]bool{"2.8.24": true, "4.0.14": true, "5.0.0": false, "7.2.4": false, "10.0.0": false, "": false} {
		if err := errors.Join(redisstore.CheckInfo("here:1", "# Server\r\nredis_version:"+version+"\r\nrole:master\r\n")...); (err != nil) != old || old && (!strings.Contains(err.Error(), version) || !strings.Contains(err.Error(), "version 5 or later")) {
			t.Errorf("%q: %v", version, err)
		}
	}
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer rdb.Close()
	if err := redisstore.New(rdb).Check(ctx); err != nil {
		t.Errorf("miniredis: %v", err)
	}
}

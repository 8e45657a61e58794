//go:build !short

package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestCheck: what an operator should know is said, and nothing where all is well; the keys that it used are gone. The
// error of a decision says what it says, with the same hint.
func TestCheck(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	root := admin(t, server.Addr())
	do(t, root, "ACL SETUSER root on nopass ~* &* +@all")
	const needed = "+evalsha +eval +del +time +get +set +setrange +lindex +lrange +lset +llen +rpush +ltrim +pexpire"
	for _, c := range []struct {
		name       string
		before     string
		user, pass string
		says       []string // nothing: all is well
		hint       string   // of the error of a decision; nothing: it is counted
		after      string
	}{
		{name: "all is well"},
		{
			name:   "eviction",
			before: "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru",
			says:   []string{"maxmemory 104857600", "allkeys-lru", "set maxmemory-policy noeviction"},
			after:  "CONFIG SET maxmemory 0 maxmemory-policy noeviction",
		},
		{
			name:   "eviction of keys with a TTL",
			before: "CONFIG SET maxmemory 100mb maxmemory-policy volatile-ttl",
			says:   []string{"volatile-ttl", "every key of sash has a TTL"},
			after:  "CONFIG SET maxmemory 0 maxmemory-policy noeviction",
		},
		{
			name:   "full",
			before: "CONFIG SET maxmemory 1", after: "CONFIG SET maxmemory 0",
			says: []string{"the server is full", "OOM"}, hint: "raise maxmemory",
		},
		{
			name:   "replica",
			before: "REPLICAOF 127.0.0.1 1", after: "REPLICAOF NO ONE",
			says: []string{"replica, of 127.0.0.1:1,", "READONLY"}, hint: "give the master's address",
		},
		{
			name:   "no replicas",
			before: "CONFIG SET min-replicas-to-write 1", after: "CONFIG SET min-replicas-to-write 0",
			says: []string{"NOREPLICAS"}, hint: "min-replicas-to-write",
		},
		{
			name:   "the least permission",
			before: "ACL SETUSER api on >secret ~sash:* " + needed, user: "api", pass: "secret",
		},
		{
			name:   "without INFO and one more",
			before: "ACL SETUSER api -time", after: "ACL SETUSER api +time", user: "api", pass: "secret",
			says: []string{"may not", "~PREFIX:*", needed}, hint: "the ACL user may not",
		},
		{
			name:   "without SETRANGE",
			before: "ACL SETUSER api -setrange", after: "ACL SETUSER api +setrange", user: "api", pass: "secret",
			says: []string{"may not do"},
		},
		{
			name:   "other keys",
			before: "ACL SETUSER api resetkeys ~other:*", user: "api", pass: "secret",
			says: []string{"NOPERM"}, hint: "~PREFIX:*",
		},
		{
			name: "wrong password", user: "api", pass: "guess",
			says: []string{"WRONGPASS"}, hint: "refuses the user name or the password",
		},
		{
			name:   "no password",
			before: "ACL SETUSER default resetpass", after: "ACL SETUSER default nopass",
			says: []string{"NOAUTH"}, hint: "asks for a password",
		},
	} {
		if c.before != "" {
			do(t, root, c.before)
		}
		// The administrator must not be shut out with the others.
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: c.user, Password: c.pass})
		store := redisstore.New(rdb)
		err, d := store.Check(ctx), closedFor(t, store, patient).Allow(ctx, "k")
		rdb.Close()
		if c.after != "" {
			do(t, root, c.after)
		}
		if n := root.DBSize(ctx).Val(); n > int64(len(core.Algorithms()))+1 {
			t.Errorf("%s: %d keys are left", c.name, n)
		}
		root.FlushAll(ctx)
		if (err != nil) != (len(c.says) > 0) || err != nil && !mentions(err, append(c.says, c.hint)...) ||
			mentions(err, "secret") || mentions(d.Err, "secret") {
			t.Errorf("%s: %v\n does not say %q and %q, or the password", c.name, err, c.says, c.hint)
		}
		if (d.Err != nil) != (c.hint != "") || !strings.Contains(errs.HintOf(d.Err), c.hint) {
			t.Errorf("%s: the error of a decision is %v with the hint %q", c.name, d.Err, errs.HintOf(d.Err))
		}
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
	if err := store.Check(hasty); !mentions(err, "is it up") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent: %v", err)
	}
	server.Kill()
	if err := store.Check(ctx); !mentions(err, "cannot be reached", "TLS", server.Addr()) {
		t.Errorf("refused: %v", err)
	}
	// It sees for itself: a breaker that is open is none of its business.
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1)}, Timeout: short})
	waitOpen(t, l, "k")
	server.Restart()
	redistest.WaitFor(t, "Check to find all well", func() error { return store.Check(ctx) })

	if err := redisstore.New(nil).Check(ctx); !mentions(err, "give a client") {
		t.Errorf("no client: %v", err)
	}
}

// TestCheckUnreadable: at a reply of an impossible length go-redis panics, in a goroutine
// that is not the caller's. Check has an error instead.
func TestCheckUnreadable(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	addr := answering(t, func(to io.Writer, command string) error {
		reply := "-ERR unknown command\r\n" // to what go-redis sends when it connects
		switch command {
		case "info", "evalsha":
			reply = "$9223372036854775807\r\n"
		case "cluster":
			reply = "*9223372036854775807\r\n"
		}
		_, err := io.WriteString(to, reply)
		return err
	})
	slots := func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}
	for name, rdb := range map[string]redis.UniversalClient{
		"Client":        redis.NewClient(&redis.Options{Addr: addr}),
		"ClusterClient": redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots}),
		"map of slots":  redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}),
		"Ring": redis.NewRing(&redis.RingOptions{
			Addrs:       map[string]string{"a": addr},
			HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
		}),
	} {
		err := redisstore.New(rdb).Check(ctx)
		if !mentions(err, "cannot read the reply") {
			t.Errorf("%s: %v", name, err)
		}
		rdb.Close()
	}
}

// answering returns the address of a server that answers each command, and closes the connection after an error.
func answering(t *testing.T, answer func(to io.Writer, command string) error) string {
	return redistest.Serve(t, func(conn net.Conn) {
		for requests := bufio.NewReader(conn); ; {
			words, _, err := redistest.ReadCommand(requests)
			if err != nil || answer(conn, strings.ToLower(words[0])) != nil {
				return
			}
		}
	})
}

// TestCheckRingDown: a ring that has lost all shards is no success.
func TestCheckRingDown(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": server.Addr()}, HeartbeatFrequency: 10 * time.Millisecond,
	})
	t.Cleanup(func() { ring.Close() })
	store := redisstore.New(ring)
	redistest.WaitFor(t, "all to be well", func() error { return store.Check(ctx) })
	server.Kill()
	redistest.WaitFor(t, "the shard to be taken out", func() error {
		if n := ring.Len(); n > 0 {
			return fmt.Errorf("%d shards", n)
		}
		return nil
	})
	if err := store.Check(ctx); !mentions(err, "every shard") {
		t.Errorf("without shards: %v", err)
	}
}

// TestCheckCluster: every master is looked at. A client for a single server, or a ring, fits a master that owns all
// slots, and is told of redis.NewClusterClient at another one.
func TestCheckCluster(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	cluster := redistest.StartCluster(t, 3, 0)
	store := redisstore.New(cluster.Client(t))
	if err := store.Check(ctx); err != nil {
		t.Fatal(err)
	}
	whole := redistest.StartCluster(t, 1, 0).Servers[0]
	for _, s := range append(cluster.Servers, whole) {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}})
		t.Cleanup(func() { ring.Close() })
		for range 10 { // the name that is tried may be this node's
			for what, rdb := range map[string]redis.UniversalClient{"Client": s.Client(t), "Ring": ring} {
				err := redisstore.New(rdb).Check(ctx)
				if s == whole && err != nil || s != whole && !mentions(err, s.Addr(), "redis.NewClusterClient") {
					t.Errorf("%s at %s: %v", what, s.Addr(), err)
				}
			}
		}
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
		if !mentions(err, says, cluster.Servers[i].Addr()) {
			t.Errorf("%v\n does not say %q of %s", err, says, cluster.Servers[i].Addr())
		}
	}
}

// TestCheckRole: a replica, and a server that is one of several masters, say so in INFO, each in its own words.
func TestCheckRole(t *testing.T) {
	for info, says := range map[string]string{
		"role:master\r\n": "",
		"role:slave\r\nmaster_host:a\r\nmaster_port:1\r\n":                           "this is a replica, of a:1",
		"role:slave\r\nmaster_host:a\r\nmaster_port:1\r\nslave_read_only:0\r\n":      "its master does not know",
		"role:replica\r\nmaster_host:a\r\nmaster_port:1\r\n":                         "this is a replica, of a:1",
		"role:active-replica\r\nmaster_global_link_status:up\r\n":                    "one of several masters",
		"role:master\r\n# CRDT Context\r\ncrdt_config_version:1\r\ncrdt_slots:0\r\n": "one of several masters",
	} {
		err := errors.Join(redisstore.CheckInfo("here:1", info)...)
		if (err != nil) != (says != "") || says != "" && !mentions(err, "here:1", says) {
			t.Errorf("%q: %v, want %q", info, err, says)
		}
	}
}

// documentedACL returns the ACL SETUSER command of docs/operations.md as it
// stands there, without the name of the program that sends it.
func documentedACL(t *testing.T) []any {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if words, ok := strings.CutPrefix(line, "redis-cli ACL SETUSER "); ok {
			args := []any{"ACL", "SETUSER"}
			for _, word := range strings.Fields(words) {
				bare := strings.Trim(word, "'")
				if strings.ContainsAny(bare, "|>~*") && bare == word {
					t.Errorf("a shell reads %s in another way", word)
				}
				args = append(args, bare)
			}
			return args
		}
	}
	t.Fatal("the page shows no ACL SETUSER")
	return nil
}

// TestDocumentedACL: a user that may do what the documentation says can count,
// on clients of all kinds with whatever go-redis sends when it connects.
func TestDocumentedACL(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	acl := documentedACL(t)
	var allowed []string
	for _, word := range acl {
		if strings.HasPrefix(word.(string), "+") {
			allowed = append(allowed, word.(string))
		}
	}
	if got := strings.Join(allowed, " "); got != redisstore.Commands {
		t.Errorf("the page allows\n%s\nand Check advises\n%s", got, redisstore.Commands)
	}
	single, cluster := redistest.Start(t), redistest.StartCluster(t, 2, 1)
	for _, s := range append(cluster.Servers, single) {
		if err := admin(t, s.Addr()).Do(ctx, acl...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const user, password, name = "api", "password", "a-name"
	for kind, rdb := range map[string]redis.UniversalClient{
		"Client": redis.NewClient(&redis.Options{
			Addr: single.Addr(), Username: user, Password: password, DB: 3, ClientName: name,
		}),
		"ClusterClient": redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs(), Username: user, Password: password, ClientName: name,
		}),
		"ClusterClient, nearby": redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs(), Username: user, Password: password, RouteByLatency: true,
		}),
	} {
		t.Cleanup(func() { rdb.Close() })
		store := redisstore.New(rdb)
		if err := store.Check(ctx); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		l := limiter(t, core.Config{
			Store: store, Limits: []core.Limit{core.PerHour(100)}, OnStoreError: core.FailClosed, Timeout: patient,
		})
		for i := range 10 {
			client := fmt.Sprint("client ", i)
			if d := l.Allow(ctx, client); d.Err != nil || !d.Allowed {
				t.Errorf("%s: %+v", kind, d)
			}
			if err := l.Reset(ctx, client); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		if kind == "ClusterClient" { // is led to a slot that is on its way
			key := redisstore.Keys(store, l, "client 0")[0]
			from, to := cluster.Servers[0], cluster.Servers[1]
			if cluster.MasterOf(key) != from {
				from, to = to, from
			}
			migration := cluster.BeginMigration(t, cluster.Slot(key), from, to)
			if d := l.Allow(ctx, "client 0"); d.Err != nil || !d.Allowed {
				t.Errorf("%s, while a slot moves: %+v", kind, d)
			}
			migration.Finish(t)
		}
	}
}

// TestCheckTimeouts: a timeout of less than three round trips is told, with the
// least that is enough.
func TestCheckTimeouts(t *testing.T) {
	for _, c := range []struct {
		roundTrip, shortest time.Duration
		says                []string // nothing: all is well
	}{
		{roundTrip: time.Millisecond},
		{roundTrip: core.DefaultTimeout / 3},
		{roundTrip: 40 * time.Millisecond, shortest: 120 * time.Millisecond},
		{roundTrip: 40 * time.Millisecond, shortest: time.Second},
		{
			roundTrip: 40 * time.Millisecond,
			says: []string{
				"here:1", "a round trip takes 40ms", "at least 120ms", "3 round trips", "the default is 100ms",
			},
		},
		{
			roundTrip: 40 * time.Millisecond, shortest: 50 * time.Millisecond,
			says: []string{"at least 120ms", "one is 50ms"},
		},
		{
			roundTrip: 33_400 * time.Microsecond,
			says:      []string{"a round trip takes 33.4ms", "at least 101ms"},
		},
	} {
		err := redisstore.CheckTimeouts("here:1", c.roundTrip, c.shortest)
		if (err != nil) != (len(c.says) > 0) {
			t.Errorf("a round trip of %v, a timeout of %v: %v", c.roundTrip, c.shortest, err)
			continue
		}
		for _, says := range c.says {
			if !mentions(err, says) {
				t.Errorf("%v\n does not say %q", err, says)
			}
		}
	}
}

// TestCheckFar: Check measures the round trip, and knows the timeouts of the
// limiters that have been made.
func TestCheckFar(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	const distance = 50 * time.Millisecond
	way := redistest.StartWay(t, redistest.Start(t).Addr(), func() time.Duration { return distance / 2 })
	rdb := redis.NewClient(&redis.Options{Addr: way.Addr()})
	t.Cleanup(func() { rdb.Close() })
	store := redisstore.New(rdb, redisstore.WithoutSharedScripts()) // without the probe, which takes many round trips
	if err := store.Check(ctx); !mentions(err, "the default is 100ms") {
		t.Errorf("without limiters: %v", err)
	}
	limits := []core.Limit{core.PerHour(1)}
	l := limiter(t, core.Config{Store: store, Limits: limits, Timeout: time.Hour})
	limiter(t, core.Config{Name: "hasty", Store: store, Limits: limits, Timeout: 2 * distance})
	if _, err := l.Rule("later", limits...); err != nil {
		t.Fatal(err)
	}
	if err := store.Check(ctx); !mentions(err, "one is 100ms") {
		t.Errorf("with a short timeout: %v", err)
	}
}

// TestCheckClosed: a server that closes the connection at the first command, as a proxy that does not know HELLO, or a
// server that speaks TLS, has been reached.
func TestCheckClosed(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	addr := answering(t, func(io.Writer, string) error { return io.EOF })
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { rdb.Close() })
	if err := redisstore.New(rdb).Check(ctx); !mentions(err, addr, "closes the connection", "HELLO", "TLS") {
		t.Errorf("%v", err)
	}
}

//go:build !short

package redisstore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
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
	needed := "+evalsha +eval +del +time +get +set +setrange +lindex +lrange +lset +llen +rpush +ltrim +pexpire"
	for _, c := range []struct {
		name       string
		before     string
		user, pass string
		says       []string // nothing: all is well
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
			says: []string{"the server is full", "raise maxmemory", "OOM"},
		},
		{
			name:   "replica",
			before: "REPLICAOF 127.0.0.1 1", after: "REPLICAOF NO ONE",
			says: []string{"replica, of 127.0.0.1:1,", "READONLY", "master's address"},
		},
		{
			name:   "no replicas",
			before: "CONFIG SET min-replicas-to-write 1", after: "CONFIG SET min-replicas-to-write 0",
			says: []string{"min-replicas-to-write", "NOREPLICAS"},
		},
		{
			name:   "the least permission",
			before: "ACL SETUSER api on >secret ~sash:* " + needed, user: "api", pass: "secret",
		},
		{
			name:   "without INFO and one more",
			before: "ACL SETUSER api -time", after: "ACL SETUSER api +time", user: "api", pass: "secret",
			says: []string{"may not", "~PREFIX:*", needed, "could not be looked at"},
		},
		{
			name:   "without SETRANGE",
			before: "ACL SETUSER api -setrange", after: "ACL SETUSER api +setrange", user: "api", pass: "secret",
			says: []string{"may not do"},
		},
		{
			name:   "other keys",
			before: "ACL SETUSER api resetkeys ~other:*", user: "api", pass: "secret",
			says: []string{"NOPERM", "~PREFIX:*"},
		},
		{
			name: "wrong password", user: "api", pass: "guess",
			says: []string{"refuses the user name or the password", "WRONGPASS"},
		},
		{
			name:   "no password",
			before: "ACL SETUSER default resetpass", after: "ACL SETUSER default nopass",
			says: []string{"asks for a password", "NOAUTH"},
		},
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
			if !mentions(err, says) {
				t.Errorf("%s: %v\n does not say %q", c.name, err, says)
			}
		}
		if n := root.DBSize(ctx).Val(); n > int64(len(core.Algorithms())) {
			t.Errorf("%s: %d keys are left", c.name, n)
		}
		if mentions(err, "secret") {
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
	addr := unreadableServer(t)
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

// unreadableServer returns the address of a server that answers with impossible lengths.
func unreadableServer(t *testing.T) string {
	return redistest.Serve(t, func(conn net.Conn) {
		requests := bufio.NewReader(conn)
		for {
			words, _, err := redistest.ReadCommand(requests)
			if err != nil {
				return
			}
			reply := "-ERR unknown command\r\n" // to what go-redis sends when it connects
			switch words[0] {
			case "info", "evalsha":
				reply = "$9223372036854775807\r\n"
			case "cluster":
				reply = "*9223372036854775807\r\n"
			}
			if _, err := io.WriteString(conn, reply); err != nil {
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
		if !mentions(err, says, cluster.Servers[i].Addr()) {
			t.Errorf("%v\n does not say %q of %s", err, says, cluster.Servers[i].Addr())
		}
	}
}

// TestCheckVersion: a server is judged by what it does, and not by the version that it tells. Where there is no INFO,
// as in miniredis, or none with maxmemory, as at some services, that alone is no finding.
func TestCheckVersion(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	for _, c := range []struct {
		name, info, eval string
		says             []string // nothing: all is well
		lines            int
	}{
		{name: "miniredis"},
		{name: "Kvrocks", info: "redis_version:4.0.0\r\nkvrocks_version:2.10.1\r\nmaxmemory:0\r\nrole:master\r\n"},
		{name: "a service", info: "redis_version:7.4.0\r\nrole:master\r\n"},
		{
			name: "Redis 4", info: "redis_version:4.0.14\r\nmaxmemory:0\r\nrole:master\r\n",
			eval: "@user_script: 9: Write commands not allowed after non deterministic commands.",
			says: []string{"too old", "needs Redis 5 or later", "non deterministic"}, lines: 1,
		},
		{
			name: "a service that is full", info: "redis_version:7.4.0\r\nrole:master\r\n",
			eval: "OOM command not allowed when used memory > 'maxmemory'.",
			says: []string{"the server is full", "INFO has no maxmemory"}, lines: 2,
		},
		{
			name: "a replica of Redis 6", info: "maxmemory:0\r\nrole:slave\r\nmaster_host:a\r\n",
			eval: "@user_script: 9: -READONLY You can't write against a read only replica.",
			says: []string{"this is a replica"}, lines: 1,
		},
	} {
		m := miniredis.RunT(t)
		m.Server().SetPreHook(func(peer *server.Peer, name string, _ ...string) bool {
			switch {
			case name == "INFO" && c.info != "":
				peer.WriteBulk(c.info)
			case strings.HasPrefix(name, "EVAL") && c.eval != "":
				peer.WriteError(c.eval)
			default:
				return false
			}
			return true
		})
		rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
		err := redisstore.New(rdb).Check(ctx)
		rdb.Close()
		if (err != nil) != (len(c.says) > 0) || err != nil && !mentions(err, c.says...) ||
			err != nil && strings.Count(err.Error(), "sash: ") != c.lines {
			t.Errorf("%s: %v, want %q in %d lines", c.name, err, c.says, c.lines)
		}
	}
}

// TestCheckClosing: a server that closes the connection at the first command, as a proxy that does not know HELLO, or
// one that speaks TLS, has been reached.
func TestCheckClosing(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	addr := redistest.Serve(t, func(conn net.Conn) { _, _, _ = redistest.ReadCommand(bufio.NewReader(conn)) })
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	if err := redisstore.New(rdb).Check(ctx); !mentions(err, addr, "closes the connection", "HELLO", "TLS") {
		t.Errorf("got %v", err)
	}
}

// TestCheckRole: a replica, and a server that is one of several masters, say so in INFO, each in its own words.
func TestCheckRole(t *testing.T) {
	for info, says := range map[string]string{
		"role:master\r\n": "",
		"role:slave\r\nmaster_host:a\r\nmaster_port:1\r\n":                           "this is a replica, of a:1",
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

// TestCheckAtOnce: a server that admits too many only where two scripts run at once is found out. An honest one is sent
// both scripts of each pair.
func TestCheckAtOnce(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { rdb.Close() })
	meet := make(chan struct{})
	var honest atomic.Bool
	var scripts, resets atomic.Int64
	m.Server().SetPreHook(func(c *server.Peer, name string, args ...string) bool {
		if honest.Load() && name == "DEL" && strings.HasSuffix(args[0], "at once") {
			resets.Add(1)
		}
		if !strings.HasPrefix(name, "EVAL") || !strings.HasSuffix(args[2], "at once") || args[len(args)-1] == "0" {
			return false // the last makes a connection
		}
		if honest.Load() {
			scripts.Add(1)
			return false
		}
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-time.After(patient):
			t.Error("a script came alone")
		}
		c.WriteBulk("1790000000 5A-") // admitted, since nothing counted
		return true
	})
	err := redisstore.New(rdb).Check(ctx)
	if !mentions(err, m.Addr(), "both admitted under a limit of 1", "--lua-transaction-mode") {
		t.Errorf("%v", err)
	}
	if n := len(m.Keys()); n > 0 {
		t.Errorf("%d keys are left", n)
	}
	honest.Store(true)
	for range 2 { // the server knows the script the second time
		scripts.Store(0)
		resets.Store(0)
		if err := redisstore.New(rdb).Check(ctx); err != nil {
			t.Errorf("an honest server: got %v", err)
		}
	}
	if got, want := scripts.Load(), resets.Load(); got != want || got == 0 {
		t.Errorf("got %d scripts, want %d: two for each pair", got, want)
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
		roundTrip, shortest, connecting time.Duration
		says                            []string // nothing: all is well
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
		{roundTrip: 150 * time.Millisecond, shortest: 500 * time.Millisecond, connecting: 600 * time.Millisecond},
		{
			roundTrip: 150 * time.Millisecond, connecting: 600_400 * time.Microsecond,
			says: []string{"at least 450ms", "a new connection takes 600ms"},
		},
	} {
		err := redisstore.CheckTimeouts("here:1", c.roundTrip, c.connecting, c.shortest)
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

// far is a connection to a server that is far away.
type far struct{ net.Conn }

const distance = 50 * time.Millisecond

func (f far) Write(b []byte) (int, error) {
	time.Sleep(distance)
	return f.Conn.Write(b)
}

// TestCheckFar: Check measures the round trip, and knows the timeouts of the
// limiters that have been made.
func TestCheckFar(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	rdb := redis.NewClient(&redis.Options{
		Addr: redistest.Start(t).Addr(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return far{conn}, err
		},
	})
	t.Cleanup(func() { rdb.Close() })
	store := redisstore.New(rdb)
	if err := store.Check(ctx); !mentions(err, "the default is 100ms", "a new connection takes") {
		t.Errorf("without limiters: %v", err)
	}
	limits := []core.Limit{core.PerHour(1)}
	l := limiter(t, core.Config{Store: store, Limits: limits, Timeout: time.Hour})
	if err := store.Check(ctx); err != nil {
		t.Errorf("with a long timeout: %v", err)
	}
	limiter(t, core.Config{Name: "hasty", Store: store, Limits: limits, Timeout: 2 * distance})
	if _, err := l.Rule("later", limits...); err != nil {
		t.Fatal(err)
	}
	if err := store.Check(ctx); !mentions(err, "one is 100ms") {
		t.Errorf("with a short timeout: %v", err)
	}
}

// TestCheckEndless: Check gives up a server that never ends its answer. Attributes in one another would end the
// process, since go-redis reads them by recursion.
func TestCheckEndless(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{
		"attributes": "|1\r\n", "arrays": "*1\r\n", "pushes": ">1\r\n", "a line": "x", "a text": "$999999999\r\n",
	} {
		for _, command := range []string{"info", "evalsha", "hello"} {
			t.Run(name+" at "+command, func(t *testing.T) {
				addr := redistest.Serve(t, func(c net.Conn) {
					for in := bufio.NewReader(c); ; {
						words, _, err := redistest.ReadCommand(in)
						if err != nil {
							return
						}
						if !strings.EqualFold(words[0], command) {
							_, _ = io.WriteString(c, "-ERR unknown command\r\n")
							continue
						}
						for block := strings.Repeat(part, 1<<14); err == nil; {
							_, err = io.WriteString(c, block)
						}
						return
					}
				})
				rdb := redis.NewClient(&redis.Options{Addr: addr})
				defer rdb.Close()
				if err := redisstore.New(rdb).Check(ctx); !mentions(err, addr) {
					t.Errorf("Check: %v", err)
				}
			})
		}
	}
}

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns the lines of the limiter's since the last call.
func (b *lockedBuffer) take() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, `msg="sash: `) {
			lines = append(lines, line)
		}
	}
	b.text.Reset()
	return lines
}

// defaultLog returns what is written to slog.Default until the test ends.
func defaultLog(t *testing.T) *lockedBuffer {
	log := new(lockedBuffer)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestMisconfigured: with a mistake in the URL of Redis requests are served, as the
// default policy has it, and one line of the program's log says so, with the cause and
// what to do about it.
func TestMisconfigured(t *testing.T) {
	open := redistest.Start(t).Addr()
	secret := redistest.Start(t, "--requirepass", "right").Addr()
	full := redistest.Start(t, "--maxmemory", "1").Addr()
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 1").Addr()
	alone := redistest.Start(t, "--min-replicas-to-write", "1").Addr()
	acl := redistest.Start(t).Addr()
	for _, user := range []string{"api on >pw ~* -@all", "script on >pw ~* +@all -rpush -set"} {
		args := []any{"ACL", "SETUSER"}
		for word := range strings.FieldsSeq(user) {
			args = append(args, word)
		}
		if err := admin(t, acl).Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, url string
		timeout   time.Duration
		cause     string
		remedy    string
	}{
		{"wrong password", "redis://:wrong@" + secret, patient, "WRONGPASS", "refuses the user name or the password"},
		{"no password", "redis://" + secret, patient, "NOAUTH", "set Password"},
		{"wrong port", "redis://" + closedPort(t), patient, "connection refused", "is the address right"},
		{"TLS on a plain server", "rediss://" + open, core.DefaultTimeout, "", "TLS"},
		{"database 99", "redis://" + open + "/99", patient, "DB index is out of range", "the server has no such database"},
		{"a full server", "redis://" + full, patient, "OOM", "raise maxmemory"},
		{"a replica", "redis://" + replica, patient, "READONLY", "give the master's address"},
		{"no replicas", "redis://" + alone, patient, "NOREPLICAS", "min-replicas-to-write"},
		{"too few rights", "redis://api:pw@" + acl, patient, "NOPERM", "the ACL user may not"},
		{"too few rights in a script", "redis://script:pw@" + acl, patient,
			"script", "the ACL user may not"}, // TestAnswers has the words of all versions
	} {
		t.Run(c.name, func(t *testing.T) {
			log := defaultLog(t)
			store, err := redisstore.Open(c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			l := limiter(t, core.Config{
				Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(1)}, Timeout: c.timeout,
			})
			served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			h := nethttp.Middleware(l, keyfuncs.RemoteIP)(served)
			for range 20 {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				if w.Code != http.StatusOK {
					t.Errorf("answered %d", w.Code)
				}
			}
			lines := log.take()
			if len(lines) != 1 {
				t.Fatalf("got %d lines, want 1: %s", len(lines), lines)
			}
			t.Log(lines[0])
			for _, text := range []string{"level=WARN", "requests are served, uncounted", "limiter=api", c.cause, c.remedy} {
				if !strings.Contains(lines[0], text) {
					t.Errorf("the line does not say %q: %s", text, lines[0])
				}
			}
			if strings.Contains(lines[0], "wrong@") || strings.Count(lines[0], "sash: ") != 1 {
				t.Errorf("the line has the password, or says sash: more than once: %s", lines[0])
			}
		})
	}
}

// TestConnAtTheSameTime: a program may use its client, in any way, while the
// first decisions are made, and Check. The race detector judges.
func TestConnAtTheSameTime(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	for range 20 {
		rdb := server.Client(t)
		store := redisstore.New(rdb)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1000)}, Timeout: patient})
		var group sync.WaitGroup
		group.Go(func() {
			if err := store.Check(ctx); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			conn := rdb.Conn()
			defer conn.Close()
			if err := conn.Ping(ctx).Err(); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if d := l.Allow(ctx, "k"); d.Err != nil {
				t.Error(d.Err)
			}
		})
		group.Wait()
	}
}

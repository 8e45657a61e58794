package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// newTestRing returns a client of a ring, and a function that returns the server of a node at an address.
func newTestRing(t *testing.T) (*Client, func(addr string) *Server) {
	ring := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { ring.Close() })
	c := New(ring, Config{})
	return c, func(addr string) *Server {
		node := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { node.Close() })
		return c.serverOf(node)
	}
}

// TestServersBounded: what is known of a server is kept while there are not too many servers.
func TestServersBounded(t *testing.T) {
	c, get := newTestRing(t)
	for i := range 2 * maxNodes {
		s := get(fmt.Sprint("127.0.0.1:", i+1))
		if s == c.Default || c.serverOf(s.node) != s {
			t.Fatalf("server %d is not the same again", i)
		}
		if n := len(c.nodes); n > 256 {
			t.Fatalf("%d servers are kept", n)
		}
	}
	if s := c.serverFor(t.Context(), "no shard has this key"); s != c.Default {
		t.Errorf("without a shard, the server is %+v", s)
	}
}

// TestBreakers: the breakers of all servers, by address. One address has one, the latest. A node that failed and that
// no request has tried since is left out.
func TestBreakers(t *testing.T) {
	c, get := newTestRing(t)
	get("b").breaker.fail(t)
	latest, early := get("b"), get("b")
	latest.created = early.created.Add(time.Second)
	early.breaker.fail(t)
	get("a")
	get("c").breaker.fail(t)
	check := func(later time.Duration, want ...string) {
		t.Helper()
		var got []string
		for _, b := range c.Breakers(time.Now().Add(later)) {
			got = append(got, b.Server+" "+b.State)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v later: %q, want %q", later, got, want)
		}
	}
	check(0, " closed", "a closed", "b closed", "c open")
	check(idleAfter/2, " closed", "a closed", "b closed", "c open")
	check(2*idleAfter, " closed", "a closed", "b closed")
	c.Default.breaker.fail(t)
	check(2*idleAfter, " open", "a closed", "b closed")
}

// TestHonorsDeadlines: a caller may serve its own call where only go-redis runs until there is a connection.
func TestHonorsDeadlines(t *testing.T) {
	for name, set := range map[string]func(*redis.Options){
		"":          func(*redis.Options) {},
		"OnConnect": func(o *redis.Options) { o.OnConnect = func(context.Context, *redis.Conn) error { return nil } },
		"Limiter": func(o *redis.Options) {
			o.Limiter = struct{ redis.Limiter }{}
		},
		"CredentialsProvider": func(o *redis.Options) {
			o.CredentialsProvider = func() (string, string) { return "", "" }
		},
		"CredentialsProviderContext": func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", nil }
		},
		"StreamingCredentialsProvider": func(o *redis.Options) {
			o.StreamingCredentialsProvider = struct {
				auth.StreamingCredentialsProvider
			}{}
		},
	} {
		o := &redis.Options{Addr: "127.0.0.1:1"}
		set(o)
		rdb := redis.NewClient(o)
		defer rdb.Close()
		if honors := canStop(rdb.Options()); honors != (name == "") {
			t.Errorf("%q: honors deadlines: %v", name, honors)
		}
	}
}

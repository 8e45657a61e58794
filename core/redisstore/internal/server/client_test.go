package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// none is what no store keeps of a node.
func none(*Server) any { return nil }

// TestServersBounded: what is known of a server is kept for as long as there are not too many servers.
func TestServersBounded(t *testing.T) {
	c := New(redis.NewRing(&redis.RingOptions{}), none)
	defer c.RDB.Close()
	for i := range 2 * maxServers {
		node := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", i+1)})
		defer node.Close()
		if s := c.nodes.get(c, node); s != c.nodes.get(c, node) || s == c.First {
			t.Fatalf("server %d is not the same again", i)
		}
		if n := len(c.nodes.byClient); n > 256 {
			t.Fatalf("%d servers are kept", n)
		}
	}
	if s := c.Server(t.Context(), "no shard has this key"); s != c.First {
		t.Errorf("without a shard, the server is %+v", s)
	}
}

// TestBreakers: the breakers of all servers, by address. One address has one, the
// latest. A node that failed and that no request has tried since is left out.
func TestBreakers(t *testing.T) {
	c := New(redis.NewRing(&redis.RingOptions{}), none)
	defer c.RDB.Close()
	get := func(addr string) *Server {
		node := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { node.Close() })
		return c.nodes.get(c, node)
	}
	get("b").fail(t)
	latest, early := get("b"), get("b")
	latest.made = early.made.Add(time.Second)
	early.fail(t)
	get("a")
	get("c").fail(t)
	check := func(later time.Duration, want ...string) {
		t.Helper()
		var got []string
		for _, b := range c.Breakers(time.Now().Add(later)) {
			got = append(got, b.Server+" "+b.State.String())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v later: %q, want %q", later, got, want)
		}
	}
	check(0, " closed", "a closed", "b closed", "c open")
	check(idleAfter/2, " closed", "a closed", "b closed", "c open")
	check(2*idleAfter, " closed", "a closed", "b closed")
	c.First.fail(t)
	check(2*idleAfter, " open", "a closed", "b closed")
}

// TestPrompt: a call may be waited for where only go-redis runs until there is a connection.
func TestPrompt(t *testing.T) {
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
		if prompt := New(rdb, none).Prompt; prompt != (name == "") {
			t.Errorf("%q: prompt: %v", name, prompt)
		}
	}
}

// Package server makes one call to a server of Redis: once, in time, and judged. A stock client does none of this: it
// repeats a call three times, ignores deadlines, and waits for servers that have gone.
//
//	client.go       the servers of a store, and the server of a key
//	send.go         a call is sent once, as one of so many at a time, and ends when its context does
//	attempt.go      a call with its deadline; it tells the breaker what became of it
//	breaker.go      no call waits for a server that has been failing
//	connections.go  what an attempt waits for; they are made under a time of their own
//	errors.go       what an error says of the server, and what an operator can do
package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Client makes the calls of a store through the user's client. A caller waits no longer than its deadline, a script is
// sent at most once, and no caller waits for a server that has been failing.
type Client struct {
	RDB redis.UniversalClient // the user's

	// Heeding is a client on the pool of RDB with connections that heed deadlines, if RDB is for a single server.
	// Otherwise it is nil.
	Heeding *redis.Client

	// Prompt says that a call to Heeding returns when its context ends.
	Prompt bool

	First *Server // the only one, or stands for every server that is not known

	Scripts, NoScripts atomic.Uint64 // that were sent, and that a server did not know

	calls chan struct{} // a token for each call under way
	nodes nodes

	// Of a cluster: whether its map of slots has been loaded. Before, asking for
	// the master of a key may wait for the network (TestHastyCallersSilent of redisstore).
	cluster *redis.ClusterClient
	mapped  atomic.Bool

	ring *redis.Ring
}

// longestWait bounds what a connection waits for a reply when a call has a
// deadline that is later (TestConnectionTimeout of redisstore).
const longestWait = time.Hour

// New returns a client that makes calls through rdb. requests returns what the store keeps in [Server.Requests] of a
// node of a cluster or a ring.
func New(rdb redis.UniversalClient, requests func(s *Server) any) *Client {
	c := &Client{RDB: rdb, calls: make(chan struct{}, maxCalls)}
	c.nodes.requests = requests
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.ring, _ = rdb.(*redis.Ring)
	addr := ""
	if single, ok := rdb.(*redis.Client); ok {
		addr = single.Options().Addr
		// WithTimeout reads options that go-redis changes when it connects, so the clone must not wait for the first
		// decision (TestConnAtTheSameTime of redisstore, with the race detector). The clone's options are its own, and
		// nothing else has seen the clone yet.
		c.Heeding = single.WithTimeout(longestWait)
		o := c.Heeding.Options()
		o.ContextTimeoutEnabled = true
		// Else a part of the program runs while a caller waits for a connection, and might not heed the context
		// (TestPrompt). go-redis dials on a goroutine of its own.
		c.Prompt = o.OnConnect == nil && o.Limiter == nil && o.CredentialsProvider == nil &&
			o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
	}
	c.First = newServer(addr)
	c.First.connections.init(c, c.First, nil)
	return c
}

// within returns the client to use until ctx ends. Where it can, its connection
// waits exactly that long (TestConnectionTimeout of redisstore).
func (c *Client) within(ctx context.Context) redis.UniversalClient {
	if _, ok := ctx.Deadline(); ok && c.Heeding != nil {
		return c.Heeding
	}
	return c.RDB
}

// nodes are the masters of a cluster or the shards of a ring, by the client
// that go-redis has for each.
type nodes struct {
	requests func(s *Server) any

	mu       sync.Mutex
	byClient map[*redis.Client]*Server
}

// Servers are the servers that are known, First before all others.
func (c *Client) Servers() []*Server {
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	return slices.AppendSeq([]*Server{c.First}, maps.Values(c.nodes.byClient))
}

// maxServers bounds what is kept of servers that have gone (TestServersBounded).
const maxServers = 256

// Server returns the server that holds key. It does not wait for the network:
// until the server of a key is known, First stands for all.
func (c *Client) Server(ctx context.Context, key string) *Server {
	var node *redis.Client
	switch {
	case c.ring != nil:
		// A shard that go-redis has taken out of the ring holds no keys: its
		// clients are counted on the other shards until the shard is back.
		node, _ = c.ring.GetShardClientForKey(key)
	case c.mapped.Load():
		node, _ = c.cluster.MasterForKey(ctx, key)
	}
	if node == nil {
		return c.First
	}
	return c.nodes.get(c, node)
}

// get returns the server of a node, of which there is one at a time (TestServersBounded).
func (s *nodes) get(c *Client, node *redis.Client) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byClient[node]; known != nil {
		return known
	}
	if s.byClient == nil || len(s.byClient) >= maxServers {
		s.byClient = map[*redis.Client]*Server{}
	}
	added := newServer(node.Options().Addr)
	added.connections.init(c, added, node)
	added.Requests = s.requests(added)
	s.byClient[node] = added
	return added
}

// idleAfter is how long a node of a cluster or a ring has been failing without a trial
// when it is no longer told of: it has probably been replaced.
const idleAfter = time.Minute

// Breakers returns the breakers of all servers, by address. Of several clients that
// go-redis has made for one address, the latest counts.
func (c *Client) Breakers(now time.Time) []Status {
	latest := map[string]*Server{}
	for _, s := range c.Servers()[1:] {
		addr := s.Addr()
		if other := latest[addr]; other == nil || other.made.Before(s.made) {
			latest[addr] = s
		}
	}
	all := []Status{*c.First.status.Load()}
	for _, s := range latest {
		status := *s.status.Load()
		if status.State == gobreaker.StateClosed || now.Sub(status.Changed) <= idleAfter {
			all = append(all, status)
		}
	}
	slices.SortStableFunc(all, func(a, b Status) int { return cmp.Compare(a.Server, b.Server) })
	return all
}

package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// client sends commands through the user's client. A caller waits no longer
// than its deadline, a script is sent at most once, and no caller waits for a
// server that has been failing. A stock client does none of this: it ignores
// deadlines, and it retries three times.
type client struct {
	rdb   redis.UniversalClient
	calls chan struct{} // a token for each call under way

	first server // the only one, or stands for every server that is not known
	nodes nodes
	joint joint // of the only server

	events events

	// Of a single server: a client on the pool of rdb with connections that heed deadlines.
	// Otherwise nil.
	heeding *redis.Client

	// inlineMost is inlineMax if a call to heeding returns when its context ends, and else 0; see newQueue.
	inlineMost time.Duration

	// Of a cluster: whether its map of slots has been loaded. Before, asking for
	// the master of a key may wait for the network (TestHastyCallersSilent).
	cluster *redis.ClusterClient
	mapped  atomic.Bool

	ring *redis.Ring
}

// longestWait bounds what a connection waits for a reply when a call has a
// deadline that is later (TestConnectionTimeout).
const longestWait = time.Hour

func (c *client) init(rdb redis.UniversalClient) {
	c.rdb = rdb
	c.calls = make(chan struct{}, maxCalls)
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.ring, _ = rdb.(*redis.Ring)
	addr := ""
	if single, ok := rdb.(*redis.Client); ok {
		addr = single.Options().Addr
		// WithTimeout reads options that go-redis changes when it connects, so
		// the clone must not wait for the first decision (TestConnAtTheSameTime,
		// with the race detector). The clone's options
		// are its own, and nothing else has seen the clone yet.
		c.heeding = single.WithTimeout(longestWait)
		o := c.heeding.Options()
		o.ContextTimeoutEnabled = true
		// Else a part of the program runs while a caller waits for a connection, and might not heed the context
		// (TestLoneCaller). go-redis dials on a goroutine of its own.
		if o.OnConnect == nil && o.Limiter == nil && o.CredentialsProvider == nil &&
			o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil {
			c.inlineMost = inlineMax
		}
	}
	c.first.breaker = newBreaker(addr)
	c.first.breaker.connections.init(c, c.first.breaker, nil)
}

// within returns the client to use until ctx ends. Where it can, its connection
// waits exactly that long (TestConnectionTimeout).
func (c *client) within(ctx context.Context) redis.UniversalClient {
	if _, ok := ctx.Deadline(); ok && c.heeding != nil {
		return c.heeding
	}
	return c.rdb
}

// events are what a store counts for [Stats].
type events struct {
	batches, batched   atomic.Uint64
	largest            atomic.Uint64
	scripts, noScripts atomic.Uint64
}

// server is what this process knows of one Redis server.
type server struct {
	breaker  *breaker
	pipeline *pipeline // nil if requests wait in the batches of a script, or go alone
}

// nodes are the masters of a cluster or the shards of a ring, by the client
// that go-redis has for each.
type nodes struct {
	mu       sync.Mutex
	byClient map[*redis.Client]*server
}

// maxServers bounds what is kept of servers that have gone (TestServersBounded).
const maxServers = 256

// server returns the server that holds key. It does not wait for the network:
// until the server of a key is known, c.first stands for all.
func (c *client) server(ctx context.Context, key string) *server {
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
		return &c.first
	}
	return c.nodes.get(c, node)
}

// get returns the server of a node, of which there is one at a time (TestServersBounded).
func (s *nodes) get(c *client, node *redis.Client) *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byClient[node]; known != nil {
		return known
	}
	if s.byClient == nil || len(s.byClient) >= maxServers {
		s.byClient = map[*redis.Client]*server{}
	}
	added := &server{breaker: newBreaker(node.Options().Addr)}
	added.breaker.connections.init(c, added.breaker, node)
	added.pipeline = newPipeline(c, node, added.breaker)
	s.byClient[node] = added
	return added
}

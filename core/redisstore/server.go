package redisstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// server is what this process knows of one Redis server.
type server struct {
	breaker  *breaker
	pipeline atomic.Pointer[pipeline] // nil if requests are decided together in one script, or alone
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
	added.pipeline.Store(newPipeline(c, node, added.breaker))
	s.byClient[node] = added
	return added
}

// separate makes a client for a single server send a script for each request
// from now on: behind that server is a cluster, where a script may have keys of
// one slot only (TestBatchCrossSlot).
func (c *client) separate() {
	c.first.pipeline.Store(newPipeline(c, nil, c.first.breaker))
}

// separated reports whether separate has been called.
func (c *client) separated() bool { return c.first.pipeline.Load() != nil }

// learn keeps the map of a cluster's slots fresh after a call that ended with
// err (TestClusterMasterKilled). The map is there once it tells the master of any key.
func (c *client) learn(ctx context.Context, err error) {
	if c.cluster == nil {
		return
	}
	if err != nil {
		c.suspect()
	}
	if !c.mapped.Load() {
		if _, err := c.cluster.MasterForKey(ctx, "any key"); err == nil {
			c.mapped.Store(true)
		}
	}
}

// suspect has the map of a cluster's slots loaded again: a master that does not
// answer may have been replaced. By itself go-redis learns of that only from
// servers that answer.
func (c *client) suspect() {
	if c.cluster != nil {
		c.cluster.ReloadState(context.Background())
	}
}

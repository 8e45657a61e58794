// Package server asks the servers of a store: each request once, within its deadline, and no server that has been
// failing. A stock client repeats a command three times, ignores deadlines, and waits for servers that are down.
//
//	client.go     the servers of a store, and the server of a key
//	server.go     the requests to one server: they wait in a queue, and are sent in batches
//	request.go    a batch becomes commands: one script for all, or a pipeline with a script for each
//	shared.go     whether one script may have the keys of several clients
//	attempt.go    one call to a server: its deadline, and its result for the breaker
//	breaker.go    requests do not wait for a server that has been failing
//	transport.go  a command is sent once
//	errors.go     what an error says of the server, and what an operator can do
package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// Client sends the requests of a store through the user's client. It is safe for concurrent use.
type Client struct {
	transport
	Default *Server // the only one, or the one for keys whose server is not known

	config Config
	ring   *redis.Ring // RDB, if it is one

	mu    sync.Mutex                // guards nodes
	nodes map[*redis.Client]*Server // the masters of a cluster or the shards of a ring

	// Whether the map of slots of a cluster has been loaded. Before, asking for the master of a key may wait for the
	// network.
	mapped  atomic.Bool
	loading atomic.Bool
}

// maxReplyTime bounds what a connection waits for a reply when a call has a deadline that is later.
const maxReplyTime = time.Hour

// New returns a client that sends requests through rdb.
func New(rdb redis.UniversalClient, config Config) *Client {
	c := &Client{config: config}
	c.RDB = rdb
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.ring, _ = rdb.(*redis.Ring)
	if single, ok := rdb.(*redis.Client); ok {
		// WithTimeout reads options that go-redis changes when it connects, so the clone is made before the first
		// decision. The clone's options are its own, and nothing else has seen the clone yet.
		c.Single = single.WithTimeout(maxReplyTime)
		c.Single.Options().ContextTimeoutEnabled = true
	}
	c.Default = newServer(&c.transport, &c.config, nil)
	return c
}

// Do has a request served by the server of its key. It fails at once while the server's breaker is not closed, and at
// the end of ctx or at the deadline as [batch.Queue.Do] does; a zero deadline is none.
func (c *Client) Do(ctx context.Context, deadline time.Time, r *Request) (core.Decision, error) {
	s := c.Default
	if c.Single == nil {
		s = c.serverFor(ctx, r.Rule.Keys(nil, r.Key)[0].(string)) // all keys of a client are on one server
	}
	return s.do(ctx, deadline, r)
}

// maxNodes bounds what is kept of servers that are gone.
const maxNodes = 256

// serverFor returns the server that holds key. It does not wait for the network: until the server of a key is known,
// Default stands for all.
func (c *Client) serverFor(ctx context.Context, key string) *Server {
	var node *redis.Client
	switch {
	case c.ring != nil:
		// A shard that go-redis has taken out of the ring holds no keys: its clients are counted on the other shards
		// until the shard is back.
		node, _ = c.ring.GetShardClientForKey(key)
	case c.mapped.Load():
		node, _ = c.cluster.MasterForKey(ctx, key)
	default:
		c.loadMap()
	}
	if node == nil {
		return c.Default
	}
	return c.serverOf(node)
}

// serverOf returns the server of a node, of which there is one at a time.
func (c *Client) serverOf(node *redis.Client) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.nodes[node]; known != nil {
		return known
	}
	if c.nodes == nil || len(c.nodes) >= maxNodes {
		c.nodes = map[*redis.Client]*Server{}
	}
	c.nodes[node] = newServer(&c.transport, &c.config, node)
	return c.nodes[node]
}

// loadMap has the map of a cluster loaded in the background. After a failure the next load waits for breakerPause.
func (c *Client) loadMap() {
	if c.cluster == nil || !c.loading.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.loading.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		if _, err := c.cluster.MasterForKey(ctx, "0"); err != nil {
			time.Sleep(breakerPause)
			return
		}
		c.mapped.Store(true)
	}()
}

// Warm has connections made in the background, or the map of a cluster loaded.
func (c *Client) Warm() {
	if c.cluster != nil {
		c.loadMap()
		return
	}
	go func() {
		c.Default.ping()
		c.Default.warm()
	}()
}

// idleAfter is the time without a probe after which a failing node of a cluster or a ring is left out of Breakers:
// it has probably been replaced.
const idleAfter = time.Minute

// Breakers returns the breakers of all servers, by address. Of several clients that go-redis has made for one address,
// the latest counts.
func (c *Client) Breakers(now time.Time) []Status {
	latest := map[string]*Server{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.nodes {
		if other := latest[s.addr]; other == nil || other.created.Before(s.created) {
			latest[s.addr] = s
		}
	}
	all := []Status{c.Default.breaker.Status()}
	for _, s := range latest {
		status := s.breaker.Status()
		if status.State == Closed || now.Sub(status.Changed) <= idleAfter {
			all = append(all, status)
		}
	}
	slices.SortStableFunc(all, func(a, b Status) int { return cmp.Compare(a.Server, b.Server) })
	return all
}

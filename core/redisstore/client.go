package redisstore

import (
	"context"
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

	events events

	// Of a single server: a client on the pool of rdb with connections that heed deadlines.
	// Otherwise nil.
	heeding *redis.Client
	exact   bool // a call to heeding returns when its context ends

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
		c.exact = isExact(o)
	}
	c.first.breaker = newBreaker(addr)
}

// isExact reports whether nothing of the program runs while a caller waits for a
// connection: it might not heed the context (TestLoneCaller). go-redis dials on a
// goroutine of its own.
func isExact(o *redis.Options) bool {
	return o.OnConnect == nil && o.Limiter == nil && o.CredentialsProvider == nil &&
		o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}

// within returns the client to use until ctx ends. Where it can, its connection
// waits exactly that long (TestConnectionTimeout).
func (c *client) within(ctx context.Context) redis.UniversalClient {
	if _, ok := ctx.Deadline(); ok && c.heeding != nil {
		return c.heeding
	}
	return c.rdb
}
